"""Fitting a network to an image, with arguments instead of a config file."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from neuralfield.api.arguments import (
    argument_names,
    plain,
    require_mapping,
    require_positive,
)
from neuralfield.api.image_field import ImageField
from neuralfield.api.run_training import Callback, run_training
from neuralfield.api.training_image import training_image
from neuralfield.fields import FIELDS, suggested_learning_rate
from neuralfield.images.colour import log
from neuralfield.system.errors import (
    ConfigError,
    UnknownSettingError,
    WrongTypeError,
    did_you_mean,
)
from neuralfield.system.settings import AUTO, any_of, settings_of
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.image.presets import FIT_PRESETS, SUITABLE, read_preset
from neuralfield.tasks.image_fit import settings_for
from neuralfield.tasks.table.samples import LARGEST_NUMBER
from neuralfield.tasks.training_settings import (
    BUDGETS,
    HOW_AND_WHERE,
    ImageExecution,
    ImageTraining,
)

_USUAL_FIELD = "siren"

_EXECUTION = ("engine", "threads", "checkpoint_interval_s", "max_temperature_celsius")
"""Settings of the execution that are arguments of `fit`, in addition to its device."""


@argument_names()
def fit(
    image: Any,
    field: str | Mapping[str, Any] | None = None,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    preset: str | None = None,
    device: str = "auto",
    seed: int = 0,
    callback: Callback | None = None,
    progress: bool = False,
    folder: str | os.PathLike | None = None,
    size: int | Sequence[int] | None = None,
    mode: str = "auto",
    max_megapixels: float = 100.0,
    page: bool | Mapping[str, bool | float] = False,
    restore: bool | Mapping[str, float | str] = True,
    **settings: Any,
) -> ImageField:
    """Fit a network to an image.

    The result is identical, byte for byte, to that of the workflow with the same settings.

    Parameters
    ----------
    image : array, PIL image or path
        An array is of NumPy or CuPy, and of shape (height, width) or (height, width, 1, 3 or 4).
        Its elements are bool, uint8, uint16, or floats in [0, 1].
    field : str or mapping
        The type of the network: siren, finer, wire, gauss, fourier, hashgrid, cafe or mlp;
        or a network as in ``config.yaml``, with ``type``, settings and ``training``. The
        default is the network of the preset, or siren.
    steps : int, optional
        Number of weight updates. The default is that of the preset, or 2000.
    seconds : float, optional
        Duration of the training, in place of `steps`: some steps are timed to find how many steps
        fit in it. The default is the preset's time limit for CPUs, if it has one.
    preset : str, optional
        Ready-made settings: "fast", "line_art" for drawings, "quality" for photographs, and "auto"
        for whichever of the two suits the image; "original" is the network that was first fitted to
        the lion cub.
    device : {"auto", "cpu", "gpu"}
    seed : int
        Seed of all random numbers. The same seed gives the same network, bit for bit.
    callback : callable, optional
        Called about 200 times with a dict: step, seconds, loss, psnr_db and learning_rate.
    progress : bool
        Whether to show a progress bar.
    folder : path, optional
        Folder for model.safetensors, history.csv, training.json and checkpoints. A later `fit` with
        the same folder resumes a training that was interrupted, and ends with the same bytes as a
        training without interruption. A `fit` of another image or with other settings replaces what
        the folder has.
    size : int or (int, int), optional
        Size to which the image is reduced before training: the longer side in pixels, or (width,
        height). A smaller image is enlarged.
    mode : {"auto", "bilevel", "grey", "rgb", "rgba"}
        Mode to which the image is converted; "auto" keeps the mode of the image.
    max_megapixels : float
        Maximum size of the image; a larger one raises ValueError.
    page : bool or mapping
        Whether the image is a scanned page that is turned until its lines are level, and cropped to
        what is on it. A mapping has ``deskew``, true, false or an angle in degrees clockwise, and
        ``crop``, true or false; both are false by default. What is done is logged as one line.
    restore : bool or mapping
        Whether a drawing in one ink that was scanned, blurred or compressed is restored first:
        paper becomes white, black ink black, and contours sharp. What is found is logged as one
        line. A mapping has ``levels``, "clean" or "own", for the colours of paper and ink, and
        estimates by hand: ``ink``, ``noise`` and ``blur_px``; see ``docs/drawings.md``.
    **settings
        Settings of the network (``width``, ``first_omega_0`` ...), of its training
        (``learning_rate``, ``batch_pixels`` ...) and of the execution (``engine``, ``threads``,
        ``checkpoint_interval_s``, ``max_temperature_celsius``). ``docs/fields.md`` and
        ``config.yaml`` describe them.

    Returns
    -------
    ImageField

    Raises
    ------
    ValueError
        A setting is out of range, a field or preset is unknown, or the image cannot be used: it is
        empty, contains NaN or values outside [0, 1], has a wrong shape or is too large.
    TypeError
        The image is of an unsupported type, or an argument has an unknown name.
    FileNotFoundError
        The image file does not exist.
    ArithmeticError
        The training diverged twice.
    RuntimeError
        There is no GPU, or too little memory.
    KeyboardInterrupt
        Ctrl-C was pressed; if `folder` is given, the state is saved first.

    Examples
    --------
    >>> import numpy as np
    >>> import neuralfield as nf
    >>> image = np.linspace(0, 1, 12 * 16).reshape(12, 16)
    >>> field = nf.fit(image, "siren", steps=20, width=8, hidden_layers=1, device="cpu")
    >>> field.render(64).shape
    (48, 64)
    """
    if callback is not None and not callable(callback):
        raise WrongTypeError("callback", repr(callback), "a function that takes a dict")
    # before the image is read, so that mistakes are reported at once
    chosen = partial(_chosen, field, seed=seed, steps=steps, seconds=seconds, settings=settings)
    network, training = chosen("quality" if preset == AUTO else preset)
    source = training_image(
        image,
        mode=mode,
        size=size,
        max_megapixels=max_megapixels,
        page=page,
        restoration=restore,
    )
    if preset == AUTO:
        description, suitable = SUITABLE[source.kind]
        log.info("fitted by the preset %s, as %s", suitable, description)
        network, training = chosen(suitable)
    settings_of_both = settings_for(source.mode, source.kind, network, training)
    task = ImageTask(source.values, source.mode, *settings_of_both)
    execution = {name: training[name] for name in HOW_AND_WHERE if name in training}
    how = ImageExecution.from_mapping({**execution, "device": device})
    model, history = run_training(task, folder, how, callback=callback, progress=progress)
    checkpoints = None if folder is None else Path(folder, "checkpoints")
    return ImageField(
        model, device=device, history=history, image=task.values, checkpoints=checkpoints
    )


def _chosen(
    field: str | Mapping[str, Any] | None,
    preset: str | None,
    *,
    seed: int,
    steps: int | None,
    seconds: float | None,
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the network, and those of its training and the execution.

    They include the defaults of config files.
    """
    if steps is not None:
        settings = {"steps": steps, **settings}
    given = _network(field, preset)
    own_training = given.pop("training", {})
    of_network, of_training = _grouped(settings, given["type"])
    network = _config_defaults(FIELDS[given["type"]]) | given | of_network
    usual = ImageTraining().described() | _config_defaults(ImageTraining)
    training = usual | own_training | {"random_seed": plain(seed)} | of_training
    if training["learning_rate"] == AUTO:
        training["learning_rate"] = suggested_learning_rate(network)
    _set_budget(training, steps, seconds)
    return network, training


def _set_budget(training: dict[str, Any], steps: int | None, seconds: float | None) -> None:
    """Replace the budget in the settings, if there is one, by `seconds` or `steps`, if given."""
    if steps is not None and seconds is not None:
        found, expected = f"{seconds!r} with steps={steps!r}", "one of the two"
        raise ConfigError("seconds", found, expected, "remove one")
    if steps is not None or seconds is not None:
        for name in BUDGETS:
            training.pop(name, None)
    if seconds is not None:
        training["budget"] = plain(seconds)
        require_positive("seconds", training["budget"], most=LARGEST_NUMBER)


def _network(field: str | Mapping[str, Any] | None, preset: str | None) -> dict[str, Any]:
    """Return a network as under ``fields`` in ``config.yaml``: that of a preset, or as given."""
    given = {"type": field} if isinstance(field, str) else {} if field is None else field
    if not isinstance(given, Mapping):
        expected = "the name of a type of network, or a mapping of its settings"
        raise WrongTypeError("field", repr(field), expected)
    require_mapping("field: training", given.get("training", {}))
    if preset is None:
        given = {"type": _USUAL_FIELD, **given}
        _require_known("field", given["type"], tuple(FIELDS))
        return given
    _require_known("preset", preset, (*FIT_PRESETS, AUTO))
    network = read_preset(preset)
    if given and given != {"type": network["type"]}:
        found = f"{preset!r} with the field {field!r}"
        raise ConfigError("preset", found, f"the field {network['type']!r}, or none")
    return network


def _require_known(where: str, name: Any, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(where, repr(name), f"one of {any_of(known)}", did_you_mean(name, known))


def _grouped(settings: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the settings of a network of this type, and those of its training and execution."""
    groups = (
        {*settings_of(FIELDS[kind])},
        {*settings_of(ImageTraining), *_EXECUTION} - {"random_seed"},
    )
    known = set().union(*groups)
    for name in settings:
        if name not in known:
            found = f"no setting of {kind} or of its training has this name"
            expected = "one in docs/fields.md or in the section training of config.yaml"
            remedy = "use seed" if name == "random_seed" else did_you_mean(name, known)
            raise UnknownSettingError(name, found, expected, remedy)
    plain_values = {name: plain(value) for name, value in settings.items()}
    return [{name: plain_values[name] for name in settings if name in names} for names in groups]


def _config_defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of config files for settings whose class has a different default."""
    return {
        name: declared.config_default
        for name, declared in settings_of(cls).items()
        if declared.config_default is not None
    }
