"""The cuda engine for classifiers: the same steps with other stages."""

from neuralfield.engines.cuda.classifier.classifier_pass import (
    ClassifierPass,
    activation_bytes,
    reason_against_plan,
)
from neuralfield.engines.cuda.classifier.plan import ClassifierPlan, classifier_plan
from neuralfield.engines.cuda.classifier.sampling import DrawingStage
from neuralfield.engines.cuda.recorded_engine import (
    RecordedEngine,
    Stages,
    memory_in_words,
    reason_against_card,
    unknown_rule,
)
from neuralfield.engines.cuda.recorded_steps import named_range
from neuralfield.engines.cuda.stages.update import UpdateStage, working_bytes
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.nn.optimizers import Muon, unclipped
from neuralfield.system.device import Device, require_memory
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective

_REMEDY = "use smaller batches (training: batch_samples)"


class ClassifierCudaEngine(RecordedEngine[DrawingStage]):
    """Training steps of a classifier that stay on the card, in float32.

    Parameters
    ----------
    objective : ClassifierObjective
        One that `reason_against` has nothing against, with a network in float32; its parameters and
        the optimizer's state become views of flat arrays.
    device : Device

    Raises
    ------
    ResourceError
        The card has too little memory.
    """

    def __init__(self, objective: ClassifierObjective, device: Device) -> None:
        plan = classifier_plan(objective)
        assert not isinstance(plan, str), plan
        labelled, network = objective.labelled, objective.network
        needed_bytes = (
            4 * (network.parameter_count + len(labelled.labels))
            + labelled.pictures.nbytes
            + sum(array.nbytes for array in objective.optimizer.state.values())
            + working_bytes(objective.optimizer, network.parameters)
            + activation_bytes(plan)
        )
        require_memory(needed_bytes, device, "training", _REMEDY)
        with memory_in_words(device, _REMEDY):
            with named_range(device.xp.cuda, "compile"):
                stages = _make_stages(objective, device, plan)
            super().__init__(device, objective, stages, "float32")


def _make_stages(
    objective: ClassifierObjective, device: Device, plan: ClassifierPlan
) -> Stages[DrawingStage]:
    step = device.xp.zeros((), dtype="int64")
    parameters, _ = flatten_parameters(device, objective.network)
    sampling = DrawingStage(device, objective, plan, step)
    own_pass = ClassifierPass(device, plan, parameters, sampling, objective.random_seed, step)
    update = UpdateStage(device, objective, parameters, own_pass, step, "float32")
    return Stages(sampling, own_pass, update)


def reason_against(objective: ClassifierObjective, precision: str, device: Device) -> str | None:
    """Why the engine cannot work on an objective; None where it can.

    Parameters
    ----------
    objective : ClassifierObjective
    precision : {"auto", "mixed", "float32", "float64"}
    device : Device
    """
    found = reason_against_card(precision, device)
    if found is not None:
        return found
    found = unknown_rule(objective)
    if isinstance(unclipped(objective.optimizer), Muon):
        found = "the optimizer Muon for classifiers"  # not measured, nor held to the tape
    if found is None:
        plan = classifier_plan(objective)
        found = plan if isinstance(plan, str) else reason_against_plan(plan)
    return None if found is None else f"the cuda engine does not cover {found}"
