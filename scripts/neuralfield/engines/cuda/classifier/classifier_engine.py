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
from neuralfield.tasks.classifier.classifier_objective import ClassifierProblem

_REMEDY = "use smaller batches (training: batch_samples)"


class ClassifierCudaEngine(RecordedEngine[DrawingStage]):
    """Training steps of a classifier that stay on the card, in float32.

    Parameters
    ----------
    problem : ClassifierProblem
        One that `reason_against` has nothing against, with a network in float32; its parameters and
        the optimizer's state become views of flat arrays.
    device : Device

    Raises
    ------
    ResourceError
        The card has too little memory.
    """

    def __init__(self, problem: ClassifierProblem, device: Device) -> None:
        plan = classifier_plan(problem)
        assert not isinstance(plan, str), plan
        state = sum(array.nbytes for array in problem.optimizer.state.values())
        working = working_bytes(problem.optimizer, problem.network.parameters)
        own_bytes = 4 * (problem.network.parameter_count + len(problem.labelled.labels))
        needed_bytes = (
            own_bytes + problem.labelled.pictures.nbytes + state + working + activation_bytes(plan)
        )
        require_memory(needed_bytes, device, "training", _REMEDY)
        with memory_in_words(device, _REMEDY):
            with named_range(device.xp.cuda, "compile"):
                stages = _make_stages(problem, device, plan)
            super().__init__(device, problem, stages, "float32")


def _make_stages(
    problem: ClassifierProblem, device: Device, plan: ClassifierPlan
) -> Stages[DrawingStage]:
    step = device.xp.zeros((), dtype="int64")
    parameters, _ = flatten_parameters(device, problem.network)
    sampling = DrawingStage(device, problem, plan, step)
    own_pass = ClassifierPass(device, plan, parameters, sampling, problem.random_seed, step)
    update = UpdateStage(device, problem, parameters, own_pass, step, "float32")
    return Stages(sampling, own_pass, update)


def reason_against(problem: ClassifierProblem, precision: str, device: Device) -> str | None:
    """Why the engine cannot work on a problem; None where it can.

    Parameters
    ----------
    problem : ClassifierProblem
    precision : {"auto", "mixed", "float32", "float64"}
    device : Device
    """
    found = reason_against_card(precision, device)
    if found is not None:
        return found
    found = unknown_rule(problem)
    if isinstance(unclipped(problem.optimizer), Muon):
        found = "the optimizer Muon for classifiers"  # not measured, nor held to the tape
    if found is None:
        plan = classifier_plan(problem)
        found = plan if isinstance(plan, str) else reason_against_plan(plan)
    return None if found is None else f"the cuda engine does not cover {found}"
