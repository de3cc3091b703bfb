"""The settings of trainings: those that determine the result, and those of the execution."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from neuralfield.nn.losses import LOSSES
from neuralfield.nn.optimizers import OPTIMIZERS
from neuralfield.nn.schedules import SCHEDULES
from neuralfield.system.settings import Settings, setting, settings_of

_ADAM = {"optimizer": ("adam", "muon")}
_FALLING = {"schedule": ("cosine", "exponential")}
_DURATION: dict[str, Any] = {
    "unit": "seconds",
    "above": 0,
    "expected": "a number of seconds > 0, or a time like 90s, 30m or 2h",
}

BUDGETS = ("budget", "cpu_budget")
"""Settings of the duration of a training, from which the steps and the batch size are found."""

_MOST_POINTS = 16
"""Maximum number of points per pixel if batches have to be made smaller: in the same time, more
pixels are then more effective than more points; see ``docs/budgets.md``."""


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """The settings of a training that all kinds of data share, by the keys of the config."""

    place: ClassVar[str] = "training.{}"

    precision: str = setting(
        "auto",
        "precision of the numbers; mixed, for the cuda engine: products of 16-bit numbers, summed"
        " in float32; float64: for the tape; auto: mixed with the cuda engine, otherwise float32",
        choices=("auto", "mixed", "float32", "float64"),
    )
    steps: int = setting(2000, "number of updates of the weights", minimum=1)
    loss: str = setting("mse", "the loss function, which the training minimizes", choices=LOSSES)
    huber_delta: float = setting(
        0.1,
        "for huber: the error above which the loss is linear, below which it is quadratic",
        above=0,
        only_with={"loss": ("huber",)},
    )
    optimizer: str = setting(
        "adam",
        "adam, muon (orthogonalised momentum for the matrices between hidden layers, adam for the"
        " other parameters: a closer fit in as many steps with sines, wavelets and Gaussians) or"
        " sgd",
        choices=OPTIMIZERS,
    )
    learning_rate: float = setting(
        1e-3,
        "the largest learning rate of the schedule; auto: the rate of the field for adam, with"
        " which muon works too (docs/fields.md)",
        above=0,
        auto=True,
        config_default="auto",
    )
    momentum: float = setting(
        0.0, "momentum of sgd; 0: none", minimum=0, below=1, only_with={"optimizer": ("sgd",)}
    )
    beta1: float = setting(
        0.9,
        "for adam, and for muon's adam: decay rate of the mean of gradients",
        minimum=0,
        below=1,
        only_with=_ADAM,
    )
    beta2: float = setting(
        0.999,
        "for adam, and for muon's adam: decay rate of the mean of squared gradients",
        minimum=0,
        below=1,
        only_with=_ADAM,
    )
    epsilon: float = setting(
        1e-8,
        "for adam, and for muon's adam: weights whose gradients are far smaller than this change"
        " less; 1.0e-15 for hash grids with many parameters",
        above=0,
        below=1,
        only_with=_ADAM,
        omit_when_off=True,
    )
    gradient_clip_norm: float | None = setting(
        None,
        "largest norm of all gradients of a step together; larger gradients are scaled down to it:"
        " 1 for cafe, and wherever a training diverges",
        above=0,
        omit_when_off=True,
        remedy="remove the key to leave gradients as they are",
    )
    keep_best: bool = setting(
        False,
        "whether the best network is saved instead of the last one, for losses that jump at the"
        " end: that of the row of the history with the lowest loss",
        omit_when_off=True,
    )
    schedule: str = setting(
        "cosine",
        "schedule of the learning rate; cosine and exponential fall to minimum_learning_rate,"
        " exponential by the same factor in every step",
        choices=SCHEDULES,
    )
    minimum_learning_rate: float = setting(
        0.0,
        "the learning rate at the end of the schedule; must be above 0 for exponential",
        minimum=0,
        only_with=_FALLING,
        limited_by="learning_rate",
    )
    epoch_offset: int = setting(
        0,
        "number of steps by which the schedule extends beyond the last step, where the rate would"
        " reach its minimum",
        minimum=0,
        only_with=_FALLING,
    )
    warmup_steps: int = setting(
        0,
        "number of steps at the start in which the learning rate rises from 0 to its largest value",
        minimum=0,
        limited_by="steps",
    )
    random_seed: int = setting(
        0,
        "seed of all random numbers; the same seed gives the same network, bit for bit",
        minimum=0,
        maximum=2**64 - 1,
        config_maximum=2**32 - 1,
    )
    snapshots: int = setting(
        60,
        "number of networks that are kept for the time-lapse, log-spaced over the steps",
        minimum=2,
        maximum=10_000,
    )


@dataclass(frozen=True)
class ImageTraining(TrainingSettings):
    """The settings of the fit of a network to an image."""

    batch_pixels: int = setting(
        2048,
        "number of pixels in each step, spread evenly over the image; 0 uses all pixels",
        unit="pixels",
        minimum=0,
    )
    supervision: str = setting(
        "footprint",
        "value of the network that is fitted to a pixel: at its centre (point), or the mean over"
        " its square (footprint), which learns edges that are finer than pixels",
        choices=("point", "footprint"),
    )
    footprint_points: int = setting(
        4,
        "number of points for each pixel in each step, with footprint supervision",
        minimum=2,
        maximum=64,
        only_with={"supervision": ("footprint",)},
    )
    detail_share: float = setting(
        0.5,
        "share of each batch that is sampled by contrast, so that edges are sampled more often than"
        " flat parts; auto: 0.75 for line art, 0 for other images",
        minimum=0,
        maximum=1,
        auto=True,
        config_default="auto",
    )
    residual: bool = setting(
        False,
        "whether renders are corrected by the difference between the training image and the"
        " network's, which is stored with the network: for photographs that are rendered larger",
        only_with={"supervision": ("footprint",)},
        omit_when_off=True,
    )
    residual_scale: int = setting(
        1,
        "resolution of that correction, as a multiple of the training image's; above 1 it also uses"
        " similar patches of the enlarged render; auto: 6 for line art and grey lines, 4 for other"
        " images",
        minimum=1,
        maximum=8,
        auto=True,
        only_with={"supervision": ("footprint",)},
        omit_when_off=True,
    )

    def changes_for(self, steps: int, batch_pixels: int) -> dict[str, int]:
        """Return the settings to change for other steps and batches.

        A warm-up that is longer than half the steps is shortened to that.
        """
        changes = {"steps": steps, "batch_pixels": batch_pixels}
        if 2 * self.warmup_steps > steps:
            changes["warmup_steps"] = steps // 2
        return changes

    def changes_for_smaller_batches(self) -> dict[str, int]:
        """Return the settings to change if a budget makes batches smaller; may be empty."""
        is_changed = self.supervision == "footprint" and self.footprint_points > _MOST_POINTS
        return {"footprint_points": _MOST_POINTS} if is_changed else {}


@dataclass(frozen=True)
class SampleTraining(TrainingSettings):
    """The settings of a fit to samples: the rows of a table, or images with labels."""

    precision: str = setting(
        "auto", "precision of the numbers; auto: float32", choices=("auto", "float32", "float64")
    )
    batch_samples: int = setting(
        256, "number of samples in each step; 0 uses all samples", minimum=0
    )
    learning_rate: float = setting(1e-2, "the largest learning rate of the schedule", above=0)
    snapshots: int = setting(
        12,
        "number of networks that are kept, log-spaced over the steps",
        minimum=2,
        maximum=10_000,
    )


@dataclass(frozen=True)
class ClassifierTraining(SampleTraining):
    """The settings of the training of a classifier."""

    learning_rate: float = setting(1e-3, "the largest learning rate of the schedule", above=0)
    loss: str = setting(
        "cross_entropy",
        "see `neuralfield.nn.losses.softmax_cross_entropy`",
        choices=("cross_entropy",),
        in_config=False,
    )
    huber_delta: float = setting(0.1, "without effect", above=0, in_config=False)


@dataclass(frozen=True)
class ExecutionSettings(Settings):
    """Settings of the execution of a training, which are in the same section of the config."""

    place: ClassVar[str] = "training.{}"

    device: str = setting(
        "auto",
        "where the training runs; auto: a GPU if one works, otherwise the CPU",
        choices=("auto", "cpu", "gpu"),
    )
    checkpoint_interval_s: float = setting(
        30,
        "seconds between two saved states: the longest work that is lost if a training is killed",
        unit="seconds",
        above=0,
        changes_result=False,
    )
    time_limit_s: float | None = setting(
        None,
        "seconds that a job may take: a training that has not finished by then saves its state and"
        " exits with code 75, and the same command, or `--retries 20`, continues it",
        unit="seconds",
        above=0,
        changes_result=False,
        remedy="remove the key for no limit",
    )
    time_margin_s: float = setting(
        60,
        "number of seconds before the time limit, or that of SLURM, at which a training exits",
        unit="seconds",
        minimum=0,
        limited_by="time_limit_s",
        changes_result=False,
    )
    max_temperature_celsius: float | None = setting(
        None,
        "the training pauses while the GPU is hotter than this, until it is 5 degrees cooler",
        unit="degrees Celsius",
        above=0,
        changes_result=False,
        remedy="remove the key for the GPU's own limit",
    )
    threads: int | None = setting(
        None,
        "number of processor cores for each training, on which results do not depend; none: an"
        " equal share of all cores",
        minimum=1,
        changes_result=False,
        remedy="remove the key to give each training an equal share of the cores",
    )


@dataclass(frozen=True)
class ImageExecution(ExecutionSettings):
    """Settings of the execution of a field's training."""

    engine: str = setting(
        "auto",
        "program that computes the steps: auto (the fastest that supports the network), cpu"
        " (docs/cpu.md), cuda (for NVIDIA GPUs of compute capability 7.5 and above, docs/gpu.md) or"
        " tape (the reference, for all networks)",
        choices=("auto", "cpu", "cuda", "tape"),
    )
    budget: float | None = setting(
        None,
        "seconds of training for each network, or a time like 90s, 30m or 2h: some steps are timed"
        " before it begins, to find the number of steps that fit, with smaller batches if too few"
        " would; `--config budget=60` sets it for all networks (docs/budgets.md)",
        **_DURATION,
    )
    cpu_budget: float | None = setting(
        None,
        "the longest time of a training on a processor, written like `budget`, which takes"
        " precedence: if `steps` would take longer, it has fewer steps and smaller batches",
        **_DURATION,
    )


@dataclass(frozen=True)
class TableExecution(ExecutionSettings):
    """Settings of the execution of a table's training; it is small, and many run at once."""

    device: str = setting(
        "cpu",
        "where the training runs; a GPU does not make small networks faster",
        choices=("auto", "cpu", "gpu"),
    )
    threads: int = setting(
        1, "number of processor cores for each table", minimum=1, changes_result=False
    )


HOW_AND_WHERE = tuple(settings_of(ImageExecution))
"""Settings in the section `training` of a config that concern the execution."""

MAKES_NO_DIFFERENCE = tuple(
    name for name, declared in settings_of(ImageExecution).items() if not declared.changes_result
)
"""Settings of the execution that do not change the result of a training."""


def of_the_training(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a config's section `training` without those of the execution."""
    return {key: value for key, value in training.items() if key not in HOW_AND_WHERE}


def log_spaced_steps(steps: int, count: int) -> list[int]:
    """Return at most `count` different steps from 0 to `steps`, including both.

    They are denser at the start, where the network changes most.
    """
    if count <= 1 or steps <= 1:
        return sorted({0, steps})
    ratio = (steps + 1) ** (1 / (count - 1))
    return sorted({min(steps, round(ratio**i) - 1) for i in range(count - 1)} | {steps})
