"""Fitting a network to an image, with arguments instead of a config file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralfield.api.arguments import (
    argument_names,
    plain,
    require_execution_setting,
    require_function,
    require_mapping,
    require_positive,
)
from neuralfield.api.image_field import ImageField
from neuralfield.api.run_training import EXECUTION_SETTINGS, Callback, run_training
from neuralfield.api.training_image import training_image
from neuralfield.fields import FIELDS, suggested_learning_rate
from neuralfield.system.errors import (
    ConfigError,
    UnknownSettingError,
    WrongTypeError,
    did_you_mean,
)
from neuralfield.system.settings import AUTO, settings_of
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.image.presets import PRESETS, read_preset
from neuralfield.tasks.image_fit import settings_for
from neuralfield.tasks.table.samples import LARGEST_NUMBER
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining

_USUAL_FIELD = "siren"


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
        Ready-made settings: "fast", "line_art" for drawings, "quality" for photographs; "original"
        is the network that was first fitted to the lion cub.
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
    require_function("callback", callback)
    if steps is not None:
        settings = {"steps": steps, **settings}
    network, training, execution = _chosen(field, preset, seed, settings)
    budget = _budget(steps, seconds, training)
    source = training_image(image, mode=mode, size=size, max_megapixels=max_megapixels)
    settings_of_both = settings_for(source.mode, source.kind, network, training)
    task = ImageTask(source.values, source.mode, *settings_of_both)
    how = {"callback": callback, "progress": progress, "budget": budget, **execution}
    model, history = run_training(task, folder, device, **how)
    checkpoints = None if folder is None else Path(folder, "checkpoints")
    return ImageField(
        model, device=device, history=history, image=task.values, checkpoints=checkpoints
    )


def _chosen(
    field: str | Mapping[str, Any] | None,
    preset: str | None,
    seed: int,
    settings: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the settings of the network, of its training and of the execution.

    They include the defaults of config files.
    """
    given = _network(field, preset)
    own_training = given.pop("training", {})
    of_network, of_training, execution = _grouped(settings, given["type"])
    network = _config_defaults(FIELDS[given["type"]]) | given | of_network
    usual = ImageTraining().described() | _config_defaults(ImageTraining)
    training = usual | own_training | {"random_seed": plain(seed)} | of_training
    if training["learning_rate"] == AUTO:
        training["learning_rate"] = suggested_learning_rate(network)
    return network, training, execution


def _budget(steps: int | None, seconds: float | None, training: dict[str, Any]) -> dict[str, float]:
    """Remove the budget from the settings and return it; `seconds` or `steps` take its place."""
    budget = {key: training.pop(key) for key in BUDGETS if key in training}
    if seconds is None:
        return budget if steps is None else {}
    if steps is not None:
        found, expected = f"{seconds!r} with steps={steps!r}", "one of the two"
        raise ConfigError("seconds", found, expected, "remove one")
    require_positive("seconds", plain(seconds), most=LARGEST_NUMBER)
    return {"budget": plain(seconds)}


def _network(field: str | Mapping[str, Any] | None, preset: str | None) -> dict[str, Any]:
    """Return a network as under ``fields`` in ``config.yaml``: that of a preset, or as given."""
    if field is not None and not isinstance(field, str):
        if not isinstance(field, Mapping):
            expected = "the name of a type of network, or a mapping of its settings"
            raise WrongTypeError("field", repr(field), expected)
        require_mapping("field: training", field.get("training", {}))
    given = {"type": field} if isinstance(field, str) else dict(field or {})
    for where, name in (("field", given.get("type", "")), ("preset", preset or "")):
        if not isinstance(name, str):
            raise WrongTypeError(where, repr(name), "a name")
    if preset is not None:
        if preset not in PRESETS:
            expected, guess = f"one of {', '.join(PRESETS)}", did_you_mean(preset, PRESETS)
            raise ConfigError("preset", repr(preset), expected, guess)
        network = read_preset(preset)
        if given and given != {"type": network["type"]}:
            found = f"{preset!r} with the field {field!r}"
            raise ConfigError("preset", found, f"the field {network['type']!r}, or none")
        return network
    given.setdefault("type", _USUAL_FIELD)
    if given["type"] not in FIELDS:
        guess = did_you_mean(given["type"], FIELDS)
        expected = f"one of {', '.join(FIELDS)}"
        raise ConfigError("field", repr(given["type"]), expected, guess)
    return given


def _grouped(settings: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the settings of a network of this type, of its training, and of the execution."""
    groups = (
        {*settings_of(FIELDS[kind])},
        {*settings_of(ImageTraining)} - {"random_seed"},
        {*EXECUTION_SETTINGS},
    )
    known = sorted(set().union(*groups))
    for name, value in settings.items():
        if name not in known:
            found = f"no setting of {kind} or of its training has this name"
            if name == "random_seed":
                raise UnknownSettingError(name, found, "the argument seed", "use seed")
            remedy = did_you_mean(name, known)
            in_pages = "one in docs/fields.md or in the section training of config.yaml"
            expected = in_pages if remedy else f"one of {', '.join(known)}"
            raise UnknownSettingError(name, found, expected, remedy)
        if name in EXECUTION_SETTINGS:
            require_execution_setting(name, plain(value))
    plain_values = {name: plain(value) for name, value in settings.items()}
    return [{name: plain_values[name] for name in settings if name in names} for names in groups]


def _config_defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of config files for settings whose class has a different default."""
    return {
        name: declared.config_default
        for name, declared in settings_of(cls).items()
        if declared.config_default is not None
    }
