"""Fitting of coded images to an image, or to the tiles of a large one, of a size or quality.

Only one tile is in memory at a time, beside the files of the tiles before it.
"""

import base64
import json
import logging
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from neuralfield.api.arguments import require_output
from neuralfield.api.image_tiles import ValuesOf
from neuralfield.api.run_training import run_training
from neuralfield.coding import nfz, tiles
from neuralfield.coding.decoding import pixels_of
from neuralfield.engines.cuda.latents.latent_engine import LEAST_CAPABILITY
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.images import image_digest
from neuralfield.images.image import MODES
from neuralfield.images.metrics import psnr_db
from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.files import write_atomically, write_json
from neuralfield.tasks.bits.bits_model import BitsModel, usual_hidden
from neuralfield.tasks.bits.bits_objective import (
    BITS_BY_WEIGHT,
    DB_BY_WEIGHT,
    LARGEST_BIT_WEIGHT,
    LEAST_BIT_WEIGHT,
)
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining
from neuralfield.tasks.training_settings import ImageExecution
from neuralfield.training.coding import coded_image
from neuralfield.training.history import History
from neuralfield.version import ENGINE_VERSION

log = logging.getLogger("neuralfield")

USUAL_LAMBDA, _USUAL_BITS, _USUAL_DB = 1e-3, 0.48, 34.9
"""The default; about the bits per pixel of photographs, and their PSNR, with it."""

_TIMED_STEPS, _LEAST_STEPS, _STEERING_STEPS = {"cpu": 40, "gpu": 800}, 60, 25
"""Steps that are timed, the fewest steps of a training, and the steps that take as long as steering
does."""

_SHORT_SHARE, _FEWEST_SHORT_STEPS = 0.1, 150
"""Length of the short training of each tile that forecasts its share of a target: a share of the
steps, but at least this number, and at most half of them."""

_LEAST_DB = 1.0
"""Least PSNR that a tile is steered to."""


@dataclass(frozen=True)
class EncodedImage:
    """The file of an image in memory.

    >>> import numpy as np
    >>> import neuralfield as nf
    >>> encoded = nf.encode(np.zeros((8, 12)), steps=5)
    >>> nf.decode(encoded.content).shape
    (8, 12)
    """

    content: bytes
    width: int
    height: int
    psnr_db: float  # of the decoded levels
    lambda_: float  # weight of one bit per pixel against the mean squared error
    steps: int

    @property
    def bits_per_pixel(self) -> float:
        return 8 * len(self.content) / (self.width * self.height)

    def save(self, path: str | os.PathLike) -> None:
        """Write the file; its name usually ends in ``.nfz``."""
        write_atomically(require_output("path", path), self.content)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Fits coded images to the tiles of an image, of which there may be one.

    The folder keeps the states of the training of one tile, and of several the results of finished
    ones, because states are large.
    """

    tiling: Tiling
    values_of: ValuesOf
    training: BitsTraining
    how: ImageExecution
    folder: Path | None
    shown: dict[str, Any]

    def timed(self, seconds: float, is_steered: bool) -> "Encoder":
        """Return an encoder with as many steps of each tile as fit in a time."""
        middle = self.tiling.tile(len(self.tiling.rows) // 2, len(self.tiling.columns) // 2)
        count = _TIMED_STEPS[self.how.device]
        training, folder = replace(self.training, steps=count), self._folder("timing")
        _, _, history = self._trained(self.values_of(middle), training, folder)
        steps = (seconds * count / history["seconds"][-1] - count) / self.tiling.count
        if is_steered:
            steps = (steps - _STEERING_STEPS) / (1 + _SHORT_SHARE * (self.tiling.count > 1))
        return replace(self, training=replace(self.training, steps=max(_LEAST_STEPS, int(steps))))

    def encoded(self) -> EncodedImage:
        """Return the image coded with the weight of bits of the training."""
        return self._assembled({tile: self._coded(tile, self.training) for tile in self.tiling})

    def of_quality(self, psnr_db: float) -> EncodedImage:
        """Return the image coded with this PSNR."""
        weight = USUAL_LAMBDA * math.exp((psnr_db - _USUAL_DB) / DB_BY_WEIGHT)

        def target_of(error: float) -> dict[str, float]:
            # rounded so that one tile has the same target; an error may be larger than any of it
            return {"target_psnr_db": max(round(-10 * math.log10(error), 9), _LEAST_DB)}

        return self._steered(weight, 10 ** (-psnr_db / 10), _squared_error, target_of)

    def of_size(self, bits_per_pixel: float) -> EncodedImage:
        """Return the image coded in a file of this size."""
        weight = USUAL_LAMBDA * (bits_per_pixel / _USUAL_BITS) ** (1 / BITS_BY_WEIGHT)
        pixels, wanted = self.tiling.width * self.tiling.height, bits_per_pixel
        if self.tiling.count > 1:
            table = 8 * len(tiles.to_bytes(self.tiling, 1, [b""] * self.tiling.count))
            wanted -= min(table / pixels, 0.9 * wanted)
        wanted *= pixels / sum(map(_pixels, self.tiling))  # overlaps are coded twice

        def bits_of(coded: EncodedImage) -> float:
            return coded.bits_per_pixel

        return self._steered(weight, wanted, bits_of, lambda n: {"target_bits_per_pixel": n})

    def _steered(
        self,
        bit_weight: float,
        wanted: float,
        amount_of: Callable[[EncodedImage], float],
        target_of: Callable[[float], dict[str, float]],
    ) -> EncodedImage:
        """Return the image coded such that an amount per pixel has a mean.

        Each tile is steered to its share of what earlier ones have left, corrected by what these
        missed. Short trainings with the same weight of bits forecast the shares. Tiles with small
        ones, which steering would change little, have the weight of the first tile. The first and
        the last have the largest.
        """
        weight = min(max(bit_weight, LEAST_BIT_WEIGHT), LARGEST_BIT_WEIGHT)
        training, forecast = replace(self.training, bit_weight=weight), {}
        steps = min(max(_SHORT_SHARE * training.steps, _FEWEST_SHORT_STEPS), training.steps / 2)
        for tile in self.tiling:
            forecast[tile] = float(_pixels(tile))
            if self.tiling.count > 1:
                short = self._coded(tile, replace(training, steps=max(1, round(steps))))
                forecast[tile] *= amount_of(short)
        total, left = sum(forecast.values()), wanted * sum(map(_pixels, self.tiling))
        first, *others = sorted(forecast, key=lambda tile: -forecast[tile])
        coded, least, awaited = {}, 0.1 * left / total, total
        aimed = found = 1e-9
        for tile in (first, *reversed(others)):
            target, is_steered = {}, 2 * forecast[tile] * len(forecast) > total
            aim = max(left / awaited, least) * forecast[tile] * min(max(aimed / found, 0.5), 2)
            if is_steered:
                target = target_of(aim / _pixels(tile))
            coded[tile] = self._coded(tile, replace(training, **target))
            training = replace(training, bit_weight=coded[first].lambda_)
            amount = amount_of(coded[tile]) * _pixels(tile)
            left, awaited = left - amount, awaited - forecast[tile]
            if is_steered:
                aimed, found = aimed + aim, found + amount
        return self._assembled(coded)

    def _assembled(self, coded: dict[Tile, EncodedImage]) -> EncodedImage:
        """Assemble the file. The error is that of tiles, before their overlaps are blended."""
        if len(coded) == 1:
            return next(iter(coded.values()))
        width, height = self.tiling.width, self.tiling.height
        channels = self.values_of(Tile(0, 0, 0, 0, 1, 1)).shape[2]
        content = tiles.to_bytes(self.tiling, channels, [coded[t].content for t in self.tiling])
        errors = sum(_pixels(tile) * _squared_error(one) for tile, one in coded.items())
        psnr_db = -10 * math.log10(errors / sum(map(_pixels, coded)))
        weight = math.exp(fmean(math.log(one.lambda_) for one in coded.values()))
        return EncodedImage(content, width, height, psnr_db, weight, self.training.steps)

    def _coded(self, tile: Tile, training: BitsTraining) -> EncodedImage:
        """Train for a tile and code the result, or read the result of an earlier call."""
        values, path, folder = self.values_of(tile), None, self._folder("training")
        if self.tiling.count > 1:
            how = self.how.device, self.how.engine, ENGINE_VERSION
            key = fingerprint(image_digest(values), training.described(), *how)
            path, folder = self._folder(f"{tile.name}_{key}.json"), self._folder(tile.name)
        if path is not None and path.exists():
            stored = json.loads(path.read_bytes())
            return EncodedImage(**stored | {"content": base64.b64decode(stored["content"])})
        task, model, _ = self._trained(values, training, folder)
        device, threads = select_device(self.how.device), self.how.threads or available_cores()
        image = coded_image(task, model, device, threads)
        reached_db = psnr_db(pixels_of(image) / np.float32(255), values)
        bit_weight = float(model.arrays["bit_weight"][0])
        numbers = image.width, image.height, reached_db, bit_weight, training.steps
        coded = EncodedImage(nfz.to_bytes(image), *numbers)
        if self.tiling.count > 1:
            log.info(
                "tile %s of %d: %d steps, %d bytes, %.2f dB, lambda %.2e",
                *(tile.name, self.tiling.count, training.steps),
                *(len(coded.content), coded.psnr_db, coded.lambda_),
            )
        if path is not None and folder is not None:
            text = base64.b64encode(coded.content).decode()
            write_json(path, asdict(coded) | {"content": text})
            shutil.rmtree(folder)
        return coded

    def _trained(
        self, values: np.ndarray, training: BitsTraining, folder: Path | None
    ) -> tuple[BitsTask, BitsModel, History]:
        hidden = usual_hidden(values.shape[0] * values.shape[1])
        task = BitsTask(values, MODES[values.shape[2]], hidden, training)
        return task, *run_training(task, folder, self.how, **self.shown)

    def _folder(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / name


def execution_on(request: str, threads: int | None) -> ImageExecution:
    """Return how to train on a device: the tape engine is too slow for images."""
    settings: dict[str, Any] = {} if threads is None else {"threads": threads}
    device = select_device(request)
    is_old = device.kind == "gpu" and compute_capability(device) < LEAST_CAPABILITY
    if device.kind == "cpu" or (is_old and request == "auto"):
        return ImageExecution.from_mapping({**settings, "device": "cpu"})
    return ImageExecution.from_mapping({**settings, "device": "gpu", "engine": "cuda"})


def _pixels(tile: Tile) -> int:
    return tile.width * tile.height


def _squared_error(coded: EncodedImage) -> float:
    return max(10 ** (-coded.psnr_db / 10), 1e-9)
