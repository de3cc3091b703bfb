"""Networks and images whose steps are timed, and the multiply-adds of the steps."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralfield.fields import CoordinateNetwork, build_field, field_settings
from neuralfield.images.image import CHANNELS
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.image.presets import read_preset
from neuralfield.tasks.training_settings import ImageTraining

SIREN = {"type": "siren", "hidden_layers": 3, "width": 256}
FINER = {"type": "finer", "hidden_layers": 3, "width": 256}
WIRE = {"type": "wire", "hidden_layers": 3, "width": 128}
GAUSS = {"type": "gauss", "hidden_layers": 3, "width": 256}
FREQUENCY_4X64 = {"type": "fourier", "frequencies": 20, "hidden_layers": 4, "width": 64}
FREQUENCY_5X128 = {"type": "fourier", "frequencies": 20, "hidden_layers": 5, "width": 128}
ORIGINAL = read_preset("original")
CAFE = {"type": "cafe"}
HASHGRID = {"type": "hashgrid", "hidden_layers": 2, "width": 64}
HASHGRID_16 = HASHGRID | {"levels": 16, "log2_table_size": 15}
HASHGRID_OF_TILE = HASHGRID | {"levels": 16, "log2_table_size": 16}

_ENDLESS_STEPS = 10_000_000
_REDUCTION = 25


@dataclass(frozen=True)
class StepRow:
    """A training step over the pixels of an image, or some of them.

    Attributes
    ----------
    field : dict
        Type and settings, as in the config.
    width, height : int
        Pixels of the image.
    mode : {"bilevel", "grey", "rgb"}
    optimizer, loss, learning_rate
        See `neuralfield.tasks.training_settings.ImageTraining`.
    footprint_points : int
        Points in each pixel; 0 is point supervision.
    batch_pixels : int
        Pixels of a step; 0 is all of them.
    """

    name: str
    field: dict[str, Any]
    width: int
    height: int
    mode: str
    optimizer: str = "adam"
    loss: str = "mse"
    learning_rate: float = 1e-4
    footprint_points: int = 0
    batch_pixels: int = 0

    @property
    def rows(self) -> int:
        """The number of points that a step evaluates."""
        pixels = self.batch_pixels or self.width * self.height
        return pixels * max(1, self.footprint_points)

    def task(self, precision: str, optimizer: str | None = None) -> ImageTask:
        """Return the step as a task, with random data and random weights."""
        footprint: dict[str, Any] = {}
        if self.footprint_points:
            footprint = {"footprint_points": self.footprint_points}
        settings = ImageTraining(
            steps=_ENDLESS_STEPS,
            batch_pixels=self.batch_pixels,
            detail_share=0.0,
            supervision="footprint" if self.footprint_points else "point",
            loss=self.loss,
            optimizer=optimizer or self.optimizer,
            learning_rate=self.learning_rate,
            schedule="constant",
            precision=precision,
            **footprint,
        )
        values = random_values(self.width, self.height, self.mode)
        return ImageTask(values, self.mode, field_settings(self.field), settings)

    def network(self) -> CoordinateNetwork:
        """Return the network with its initial weights, in float64 on the CPU."""
        task = self.task("float32")
        return build_field(task.field, task.shape, task.training.random_seed)

    def reduced(self) -> "StepRow":
        """Return a step of the same kind that is small enough to test everything on a CPU."""
        width, height = self.width // _REDUCTION, self.height // _REDUCTION
        return replace(self, field=reduced_field(self.field), width=width, height=height)


STEPS = (
    StepRow("siren 3x256, 768x512 rgb", SIREN, 768, 512, "rgb"),
    StepRow("siren 3x256, 200x200 grey", SIREN, 200, 200, "grey"),
    StepRow(
        "original tanh network, 200x200",
        ORIGINAL,
        200,
        200,
        "bilevel",
        optimizer="sgd",
        loss="binary_cross_entropy",
        learning_rate=0.1,
    ),
    StepRow("fourier 4x64, 768x512 rgb", FREQUENCY_4X64, 768, 512, "rgb"),
    StepRow("fourier 5x128, 768x512 rgb", FREQUENCY_5X128, 768, 512, "rgb"),
    StepRow(
        "hashgrid 16x2^15 + relu 2x64, 768x512 rgb",
        HASHGRID_16,
        768,
        512,
        "rgb",
        learning_rate=1e-2,
    ),
    StepRow("finer 3x256, 768x512 rgb", FINER, 768, 512, "rgb"),
    StepRow("wire 3x128, 768x512 rgb", WIRE, 768, 512, "rgb"),
    StepRow("gauss 3x256, 768x512 rgb", GAUSS, 768, 512, "rgb"),
    StepRow("cafe, 768x512 rgb", CAFE, 768, 512, "rgb"),
    StepRow(
        "siren 3x256 by muon, 768x512 rgb",
        SIREN,
        768,
        512,
        "rgb",
        optimizer="muon",
    ),
    StepRow("siren 3x256, 200x200 grey, 9 points", SIREN, 200, 200, "grey", footprint_points=9),
)
"""Rows whose steps are timed on a GPU. The inputs of the rows `fourier` are a sine and a cosine of
each of 20 frequencies; their activation is relu."""

PROCESSOR_STEPS = (
    STEPS[1],
    StepRow("siren 3x128, 200x200 grey", SIREN | {"width": 128}, 200, 200, "grey"),
    STEPS[2],
    StepRow("finer 3x128, 200x200 grey", FINER | {"width": 128}, 200, 200, "grey"),
    StepRow("gauss 3x128, 200x200 grey", GAUSS | {"width": 128}, 200, 200, "grey"),
    StepRow("wire 3x90, 200x200 grey", WIRE | {"width": 90}, 200, 200, "grey"),
    StepRow("cafe, 200x200 grey", CAFE, 200, 200, "grey"),
    StepRow("hashgrid 8 x 2^12 + relu 2x64, 200x200 grey", HASHGRID, 200, 200, "grey"),
    StepRow("hashgrid 16 x 2^15 + relu 2x64, 200x200 grey", HASHGRID_16, 200, 200, "grey"),
)

BATCHES = tuple(
    StepRow(
        f"hashgrid 16x2^16 + relu 2x64, {pixels:,} of 1024x1024 rgb",
        HASHGRID_OF_TILE,
        1024,
        1024,
        "rgb",
        learning_rate=1e-2,
        batch_pixels=pixels,
    )
    for pixels in (32_768, 65_536, 262_144)
)
"""Steps on some pixels of an image, as in the tiles of a large image."""


def reduced_field(field: dict[str, Any]) -> dict[str, Any]:
    """Return a tiny network of the same kind."""
    if field["type"] == "mlp":
        return field | {"widths": [16, 16, 32, 16, 8, 8, 8]}
    return field | {"width": 16}


def random_values(width: int, height: int, mode: str, random_seed: int = 0) -> np.ndarray:
    """Return an image of random sines and noise; float32, shape (height, width, channels)."""
    generator = np.random.default_rng(random_seed)
    channels = CHANNELS[mode]
    x, y = np.linspace(-1, 1, width)[None, :, None], np.linspace(-1, 1, height)[:, None, None]
    values = 0.5 + generator.uniform(-0.1, 0.1, size=(height, width, channels))
    for _ in range(5):
        across, down, phase = generator.normal(0, 6, size=(3, channels))
        values += 0.12 * np.sin(across * x + down * y + phase)
    if mode == "bilevel":
        return (values >= 0.5).astype(np.float32)
    return np.clip(values, 0, 1).astype(np.float32)


def training_multiply_adds(row: StepRow) -> int:
    """Return the multiply-adds of a step: one forward and two backward for each row and weight.

    The first layer has only one backward, because no gradient with respect to the position is
    needed, unless its inputs are trained.
    """
    network = row.network()
    first, *others = network.layers
    products = 3 if network.encoding.parameters else 2
    weights = sum(layer.fan_in * layer.fan_out for layer in others)
    return row.rows * (products * first.fan_in * first.fan_out + 3 * weights)


def rendering_multiply_adds(network: CoordinateNetwork) -> int:
    """Return the multiply-adds of a rendered pixel: one for each weight."""
    return sum(layer.fan_in * layer.fan_out for layer in network.layers)
