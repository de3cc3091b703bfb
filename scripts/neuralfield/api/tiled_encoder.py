"""Fitting of coded images to the tiles of a large image, with nearly the same weight of bits.

Only one tile is in memory at a time, beside the files of the tiles before it.
"""

import base64
import json
import logging
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from neuralfield.api.encoder import (
    LEAST_STEPS,
    EncodedImage,
    Encoder,
    limited,
    weight_for_quality,
    weight_for_size,
)
from neuralfield.api.image_tiles import ValuesOf
from neuralfield.coding import tiles
from neuralfield.images import image_digest
from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.checkpoint import fingerprint
from neuralfield.system.files import write_json
from neuralfield.tasks.bits.bits_objective import BITS_BY_WEIGHT, DB_BY_WEIGHT
from neuralfield.tasks.bits.bits_task import BitsTraining
from neuralfield.tasks.training_settings import ImageExecution
from neuralfield.version import ENGINE_VERSION

log = logging.getLogger("neuralfield")

_PILOT_SHARE, _FEWEST_PILOT_STEPS = 0.1, 150
"""Length of the short training of each tile that forecasts its share of a target: a share of the
steps, but at least this number, and at most half of them."""

_LEAST_DB = 1.0
"""Least PSNR that a tile is steered to."""

_LARGEST_CORRECTION = 4.0
"""Largest factor between the weight of bits of a tile and that of the first."""


@dataclass(frozen=True, eq=False)
class TiledEncoder:
    """Codes a large image in tiles; the methods are those of `Encoder`.

    The folder keeps the results of finished tiles, in place of their states, which are large.
    """

    tiling: Tiling
    values_of: ValuesOf
    training: BitsTraining
    how: ImageExecution
    folder: Path | None
    shown: dict[str, Any]

    def timed(self, seconds: float, is_steered: bool) -> "TiledEncoder":
        """Return an encoder with as many steps of each tile as fit in a time."""
        middle = self.tiling.tile(len(self.tiling.rows) // 2, len(self.tiling.columns) // 2)
        encoder = Encoder(self.values_of(middle), self.training, self.how, self.folder, self.shown)
        steps = encoder.timed_steps(seconds) / self.tiling.count
        steps = max(LEAST_STEPS, int(steps / (1 + _PILOT_SHARE * is_steered)))
        return replace(self, training=replace(self.training, steps=steps))

    def encoded(self) -> EncodedImage:
        """Return the image coded with the weight of bits of the training."""
        return self._assembled({tile: self._coded(tile, self.training) for tile in self.tiling})

    def of_quality(self, psnr_db: float) -> EncodedImage:
        """Return the image coded with this PSNR."""

        def error_of(tile: Tile, coded: EncodedImage) -> float:
            return _pixels(tile) * _squared_error(coded)

        def target_of(tile: Tile, share: float) -> dict[str, float]:
            # the share may be larger than any error of the tile
            return {"target_psnr_db": max(-10 * math.log10(share / _pixels(tile)), _LEAST_DB)}

        total = sum(map(_pixels, self.tiling)) * 10 ** (-psnr_db / 10)
        training = replace(self.training, bit_weight=weight_for_quality(psnr_db))
        power = -DB_BY_WEIGHT * math.log(10) / 10
        return self._steered(training, total, error_of, power, target_of)

    def of_size(self, bits_per_pixel: float) -> EncodedImage:
        """Return the image coded in a file of this size."""

        def bytes_of(_: Tile, coded: EncodedImage) -> float:
            return len(coded.content)

        def target_of(tile: Tile, share: float) -> dict[str, float]:
            return {"target_bits_per_pixel": 8 * share / _pixels(tile)}

        size_bytes = bits_per_pixel * self.tiling.width * self.tiling.height / 8
        table = len(tiles.to_bytes(self.tiling, 1, [b""] * self.tiling.count))
        total = max(size_bytes - table, 0.1 * size_bytes)
        training = replace(self.training, bit_weight=weight_for_size(bits_per_pixel))
        return self._steered(training, total, bytes_of, BITS_BY_WEIGHT, target_of)

    def _steered(
        self,
        training: BitsTraining,
        total: float,
        amount_of: Callable[[Tile, EncodedImage], float],
        power: float,
        target_of: Callable[[Tile, float], dict[str, float]],
    ) -> EncodedImage:
        """Return the image coded such that amounts of tiles have a total.

        Amounts are about powers of the weight of bits. A tile with the largest is steered to its
        share, which short trainings of all tiles forecast. The weight that it has in the end is
        that of the others, except for corrections by what finished tiles take.
        """
        steps = min(max(_PILOT_SHARE * training.steps, _FEWEST_PILOT_STEPS), training.steps / 2)
        short = replace(training, steps=max(1, round(steps)))
        forecast = {tile: amount_of(tile, self._coded(tile, short)) for tile in self.tiling}
        largest, *others = sorted(forecast, key=lambda tile: -forecast[tile])
        share = total * forecast[largest] / sum(forecast.values())
        steered = replace(training, **target_of(largest, share))
        coded = {largest: self._coded(largest, steered)}
        usual = coded[largest].lambda_
        for tile in others:
            found = sum(amount_of(t, done) for t, done in coded.items())
            usual_found = sum(
                forecast[t] * (done.lambda_ / usual) ** power for t, done in coded.items()
            )
            left = sum(forecast[t] for t in forecast.keys() - coded.keys())
            expected = left * found / usual_found
            # the last tiles do not make up for all alone, as their quality would differ
            base = max(expected, total / 8)
            factor = max(1 + (total - found - expected) / base, 0.01) ** (1 / power)
            factor = min(max(factor, 1 / _LARGEST_CORRECTION), _LARGEST_CORRECTION)
            weight = limited(usual * factor)
            coded[tile] = self._coded(tile, replace(training, bit_weight=weight))
        return self._assembled(coded)

    def _assembled(self, coded: dict[Tile, EncodedImage]) -> EncodedImage:
        """Assemble the file. The error is that of tiles, before their overlaps are blended."""
        width, height = self.tiling.width, self.tiling.height
        channels = self.values_of(Tile(0, 0, 0, 0, 1, 1)).shape[2]
        content = tiles.to_bytes(self.tiling, channels, [coded[t].content for t in self.tiling])
        errors = sum(_pixels(tile) * _squared_error(one) for tile, one in coded.items())
        psnr_db = -10 * math.log10(errors / sum(map(_pixels, coded)))
        weight = math.exp(fmean(math.log(one.lambda_) for one in coded.values()))
        return EncodedImage(content, width, height, psnr_db, weight, self.training.steps)

    def _coded(self, tile: Tile, training: BitsTraining) -> EncodedImage:
        """Train for a tile, or read the result of an earlier call."""
        values = self.values_of(tile)
        how = self.how.device, self.how.engine, ENGINE_VERSION
        key = fingerprint(image_digest(values), training.described(), *how)
        path = None if self.folder is None else self.folder / f"{tile.name}_{key}.json"
        if path is not None and path.exists():
            stored = json.loads(path.read_bytes())
            return EncodedImage(**stored | {"content": base64.b64decode(stored["content"])})
        folder = None if self.folder is None else self.folder / tile.name
        coded = Encoder(values, training, self.how, folder, self.shown).encoded()
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


def _pixels(tile: Tile) -> int:
    return tile.width * tile.height


def _squared_error(coded: EncodedImage) -> float:
    return max(10 ** (-coded.psnr_db / 10), 1e-9)
