"""Coding of images in few bits, of a given size or quality."""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.arguments import (
    argument_names,
    plain,
    require,
    require_output,
    require_positive,
)
from neuralfield.api.run_training import Callback, run_training
from neuralfield.api.training_image import training_image
from neuralfield.coding import nfz
from neuralfield.coding.coded_image import CodedImage
from neuralfield.coding.decoding import pixels_of
from neuralfield.engines.cuda.latents.latent_engine import LEAST_CAPABILITY
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.images.image import MODES
from neuralfield.images.metrics import psnr_db
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.errors import ConfigError
from neuralfield.system.files import write_atomically
from neuralfield.tasks.bits.bits_model import BitsSettings
from neuralfield.tasks.bits.bits_objective import (
    BITS_BY_WEIGHT,
    DB_BY_WEIGHT,
    LARGEST_BIT_WEIGHT,
    LEAST_BIT_WEIGHT,
)
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining
from neuralfield.tasks.training_settings import ImageExecution
from neuralfield.training.coding import coded_image

_USUAL_STEPS = 3000
_USUAL_LAMBDA, _USUAL_BITS, _USUAL_DB = 1e-3, 0.48, 34.9
"""The default; about the bits per pixel of photographs, and their PSNR, with it."""

_TIMED_STEPS, _LEAST_STEPS, _STEERING_STEPS = {"cpu": 40, "gpu": 800}, 60, 25
"""Steps that are timed, the fewest steps of a training, and how many take the time that steering
takes."""


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


@argument_names()
def encode(
    image: Any,
    *,
    bytes: int | None = None,
    bpp: float | None = None,
    psnr_db: float | None = None,
    lambda_: float | None = None,
    seconds: float | None = None,
    steps: int | None = None,
    mode: str = "auto",
    seed: int = 0,
    device: str = "auto",
    threads: int | None = None,
    folder: str | os.PathLike | None = None,
    snapshots: int = 2,
    max_megapixels: float = 16.0,
    callback: Callback | None = None,
    progress: bool = False,
) -> EncodedImage:
    """Code an image in few bits, by latents and small networks that are fitted to it.

    `neuralfield.decode` reads the file. One of `bytes`, `bpp`, `psnr_db` and `lambda_` sets what
    is aimed for; for the first three, lambda is steered during the training.

    Parameters
    ----------
    image : array, PIL image or path
        As for `neuralfield.fit`, at its own size. Levels are coded with 8 bits.
    bytes : int, optional
        Size of the file in bytes.
    bpp : float, optional
        Size of the file in bits per pixel.
    psnr_db : float, optional
        Peak signal-to-noise ratio of the decoded image, over all channels, in dB.
    lambda_ : float, optional
        Weight of one bit per pixel against the mean squared error of values in [0, 1]: from 2e-2
        for few bits to 1e-4 for many; default: 1e-3.
    seconds : float, optional
        Time of the trainings. Some steps are timed to find how many fit in it.
    steps : int, optional
        Number of steps of the training, in place of `seconds`; default: 3000. More steps take
        fewer bits for the same quality.
    mode : {"auto", "grey", "rgb", "rgba"}
        Mode to which the image is converted; "auto" keeps the mode of the image.
    seed : int
        Seed of all random numbers.
    device : {"auto", "cpu", "gpu"}
        Where to train; "auto" takes an NVIDIA GPU of compute capability 8.0 or higher if there is
        one. Files of different devices differ.
    threads : int, optional
        Number of processor cores, on which the file does not depend; default: all.
    folder : path, optional
        Folder for the states of trainings, from which the same call resumes after an interruption,
        with the same file.
    snapshots : int
        Number of networks of the training that are kept in the folder, log-spaced over the steps.
    max_megapixels : float
        Maximum size of the image; a larger one raises ValueError.
    callback, progress
        As for `neuralfield.fit`, for each of the trainings.

    Returns
    -------
    EncodedImage
        With ``content``, ``bits_per_pixel``, ``psnr_db`` and ``save(path)``.

    Raises
    ------
    ValueError
        An argument is out of range, or the image cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import neuralfield as nf
    >>> image = np.linspace(0, 1, 24 * 32).reshape(24, 32)
    >>> encoded = nf.encode(image, lambda_=1e-3, steps=20)
    >>> encoded.bits_per_pixel < 8
    True
    """
    targets = {"bytes": bytes, "bpp": bpp, "psnr_db": psnr_db, "lambda_": lambda_}
    given = {name: plain(value) for name, value in targets.items() if value is not None}
    if len(given) > 1:
        raise ConfigError(" and ".join(given), "both are given", "one target", "remove the others")
    for name, value in given.items():
        require_positive(name, value)
    if seconds is not None:
        require_positive("seconds", seconds)
        require(steps is None, "steps", steps, "no steps beside seconds")
    require(mode != "bilevel", "mode", mode, "auto, grey, rgb or rgba")
    source = training_image(image, mode=mode, max_megapixels=max_megapixels)
    encoder = _Encoder(
        source.values,
        BitsTraining(
            steps=_USUAL_STEPS if steps is None else plain(steps),
            random_seed=plain(seed),
            bit_weight=given.get("lambda_", _USUAL_LAMBDA),
            snapshots=plain(snapshots),
        ),
        _execution(device, plain(threads)),
        None if folder is None else Path(folder),
        {"callback": callback, "progress": progress},
    )
    if seconds is not None:
        encoder = encoder.timed(seconds, is_steered=bool({*given} - {"lambda_"}))
    if "psnr_db" in given:
        return encoder.of_quality(given["psnr_db"]).encoded()
    if "bytes" in given or "bpp" in given:
        pixels = source.values.shape[0] * source.values.shape[1]
        bits_per_pixel = given.get("bpp") or 8 * given["bytes"] / pixels
        return encoder.of_size(bits_per_pixel).encoded()
    return encoder.fitted().encoded()


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A coded image, and what it was made from."""

    coded: CodedImage
    values: np.ndarray
    bit_weight: float
    steps: int
    seconds: float

    @cached_property
    def content(self) -> bytes:
        return nfz.to_bytes(self.coded)

    @cached_property
    def psnr_db(self) -> float:
        return psnr_db(pixels_of(self.coded) / np.float32(255), self.values)

    def encoded(self) -> EncodedImage:
        sides = self.coded.width, self.coded.height
        return EncodedImage(self.content, *sides, self.psnr_db, self.bit_weight, self.steps)


@dataclass(frozen=True, eq=False)
class _Encoder:
    """Fits coded images to an image."""

    values: np.ndarray
    training: BitsTraining
    how: ImageExecution
    folder: Path | None
    shown: dict[str, Any]

    def fitted(self, name: str = "training", **changed: Any) -> _Fitted:
        """Train with changed settings."""
        training = replace(self.training, **changed)
        mode = MODES[self.values.shape[2]]
        settings = BitsSettings.for_pixels(self.values.shape[0] * self.values.shape[1])
        task = BitsTask(self.values, mode, settings, training)
        folder = None if self.folder is None else self.folder / name
        model, history = run_training(task, folder, self.how, **self.shown)
        device, threads = select_device(self.how.device), self.how.threads or available_cores()
        coded = coded_image(task, model, device, threads)
        bit_weight = float(model.arrays["bit_weight"][0])
        return _Fitted(coded, self.values, bit_weight, training.steps, history["seconds"][-1])

    def timed(self, seconds: float, is_steered: bool) -> "_Encoder":
        """Return an encoder with as many steps as fit in a time."""
        count = _TIMED_STEPS[self.how.device]
        timed = replace(self, training=replace(self.training, steps=count))
        step_s = timed.fitted("timing").seconds / count
        steps = max(_LEAST_STEPS, int(seconds / step_s - count - is_steered * _STEERING_STEPS))
        return replace(self, training=replace(self.training, steps=steps))

    def of_quality(self, psnr_db: float) -> _Fitted:
        """Return a coded image of this PSNR."""
        first = _USUAL_LAMBDA * math.exp((psnr_db - _USUAL_DB) / DB_BY_WEIGHT)
        return self.fitted(bit_weight=_limited(first), target_psnr_db=psnr_db)

    def of_size(self, bits_per_pixel: float) -> _Fitted:
        """Return a coded image whose file has this size."""
        first = _USUAL_LAMBDA * (bits_per_pixel / _USUAL_BITS) ** (1 / BITS_BY_WEIGHT)
        return self.fitted(bit_weight=_limited(first), target_bits_per_pixel=bits_per_pixel)


def _execution(request: str, threads: int | None) -> ImageExecution:
    """Return how to train on a device: the tape engine is too slow for images."""
    settings: dict[str, Any] = {} if threads is None else {"threads": threads}
    device = select_device(request)
    is_old = device.kind == "gpu" and compute_capability(device) < LEAST_CAPABILITY
    if device.kind == "cpu" or (is_old and request == "auto"):
        return ImageExecution.from_mapping({**settings, "device": "cpu"})
    return ImageExecution.from_mapping({**settings, "device": "gpu", "engine": "cuda"})


def _limited(bit_weight: float) -> float:
    return min(max(bit_weight, LEAST_BIT_WEIGHT), LARGEST_BIT_WEIGHT)
