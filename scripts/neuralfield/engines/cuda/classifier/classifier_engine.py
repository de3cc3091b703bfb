"""The cuda engine for classifiers: the same steps with other stages."""

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.classifier import classifier_pass
from neuralfield.engines.cuda.classifier.classifier_pass import ClassifierPass, activation_bytes
from neuralfield.engines.cuda.classifier.classifier_plan import ClassifierPlan, classifier_plan
from neuralfield.engines.cuda.classifier.sampling import ImageSampling
from neuralfield.engines.cuda.recorded_engine import (
    RecordedEngine,
    Stages,
    made_in_memory,
    not_covered,
)
from neuralfield.engines.cuda.recorded_steps import named_range
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.nn.optimizers import Muon, unclipped
from neuralfield.system.device import Device
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective

_REMEDY = "use smaller batches (training: batch_samples)"


class ClassifierCudaEngine(RecordedEngine[ImageSampling]):
    """Takes training steps of a classifier entirely on the GPU, in float32.

    The objective must have no `unsupported_reason`. Its parameters and the optimizer's state become
    views of flat arrays. A `ResourceError` is raised if the GPU has too little memory.
    """

    def __init__(self, objective: ClassifierObjective, device: Device) -> None:
        plan = classifier_plan(objective)
        assert not isinstance(plan, str), plan
        labelled = objective.labelled
        data_bytes = 4 * len(labelled.labels) + labelled.images.nbytes
        with made_in_memory(objective, device, data_bytes + activation_bytes(plan), _REMEDY):
            with named_range(device.xp.cuda, "compile"):
                stages = _make_stages(objective, device, plan)
            super().__init__(device, objective, stages, "float32")


def _make_stages(
    objective: ClassifierObjective, device: Device, plan: ClassifierPlan
) -> Stages[ImageSampling]:
    step = device.xp.zeros((), dtype="int64")
    parameters, _ = flatten_parameters(device, objective.network)
    sampling = ImageSampling(device, objective, plan, step)
    own_pass = ClassifierPass(device, plan, parameters, sampling, objective.random_seed, step)
    update = UpdateStage(device, objective, parameters, own_pass, step, "float32")
    return Stages(sampling, own_pass, update)


def unsupported_reason(
    objective: ClassifierObjective, precision: str, device: Device
) -> str | None:
    """Return the reason why the cuda engine does not cover an objective, or None; for `precision`
    see `make_engine`.
    """
    found = recorded_engine.unsupported_reason(objective, precision, device)
    if found is not None:
        return found
    if isinstance(unclipped(objective.optimizer), Muon):
        return not_covered("the optimizer Muon for classifiers")  # not measured, nor tested
    plan = classifier_plan(objective)
    part = plan if isinstance(plan, str) else classifier_pass.unsupported_reason(plan)
    return None if part is None else not_covered(part)
