"""Coding of images in few bits, of a given size or quality."""

import os
from typing import Any

from neuralfield.api.arguments import (
    argument_names,
    plain,
    require,
    require_path,
    require_positive,
)
from neuralfield.api.encoder import USUAL_LAMBDA, EncodedImage, Encoder, execution_on
from neuralfield.api.image_tiles import opened_tiles
from neuralfield.api.run_training import Callback
from neuralfield.coding.tiles import MAX_MEGAPIXELS
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.bits.bits_task import BitsTraining

_USUAL_STEPS = 3000


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
    tile: int | None = None,
    folder: str | os.PathLike | None = None,
    snapshots: int = 2,
    max_megapixels: float = MAX_MEGAPIXELS,
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
    tile : int, optional
        Largest side of a tile in pixels. An image with a longer side is coded in tiles, each with
        all of the steps; one tile of an image file is in memory at a time. Default: 2048 for
        images of more than 16 megapixels, and others are coded in one piece.
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
    training = BitsTraining(
        steps=_USUAL_STEPS if steps is None else plain(steps),
        random_seed=plain(seed),
        bit_weight=given.get("lambda_", USUAL_LAMBDA),
        snapshots=plain(snapshots),
    )
    where = None if folder is None else require_path("folder", folder)
    how = execution_on(device, plain(threads)), where, {"callback": callback, "progress": progress}
    with opened_tiles(image, plain(tile), mode, max_megapixels, where) as (tiling, values_of):
        encoder = Encoder(tiling, values_of, training, *how)
        if seconds is not None:
            encoder = encoder.timed(seconds, is_steered=bool({*given} - {"lambda_"}))
        if "psnr_db" in given:
            return encoder.of_quality(given["psnr_db"])
        if "bytes" in given or "bpp" in given:
            pixels = tiling.width * tiling.height
            return encoder.of_size(given.get("bpp") or 8 * given["bytes"] / pixels)
        return encoder.encoded()
