"""Loading of saved networks; the file stores the kind of network."""

import os
from pathlib import Path
from typing import Any

from neuralfield.api.arguments import argument_names, require_path
from neuralfield.api.classifiers import ImageClassifier
from neuralfield.api.image_field import ImageField
from neuralfield.api.tables import TableRegressor
from neuralfield.api.training_image import training_image
from neuralfield.system.checkpoint import load_arrays
from neuralfield.system.device import require_device
from neuralfield.system.errors import CheckpointError, MissingFileError
from neuralfield.system.provenance import measured
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.training.history import read_history


@argument_names()
def load(path: str | os.PathLike, image: Any = None, *, device: str = "auto") -> Any:
    """Load a network that was fitted by this package or by the workflow.

    Parameters
    ----------
    path : path
        A ``model.safetensors``, the folder that contains it, or a file of ``checkpoints``.
    image : array, PIL image or path, optional
        The training image, as for `neuralfield.fit`; `ImageField.psnr` is computed with it. Without
        an image, `ImageField.psnr` is the value that the workflow has measured.
    device : {"auto", "cpu", "gpu"}
        Device that computes renders.

    Returns
    -------
    ImageField, TableRegressor or ImageClassifier
        The type depends on whether the network was fitted to an image, a table or labelled images.
        Files store no labels, so that a `TableClassifier` is loaded as a `TableRegressor`, which
        predicts its probabilities, and the labels of an `ImageClassifier` are 0, 1, ...
        An `ImageField` has its history if it was read from a ``model.safetensors`` with a
        ``history.csv`` in the same folder.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    ValueError
        The file is damaged, or is not a saved network.

    Examples
    --------
    >>> import neuralfield as nf
    >>> nf.load("nowhere.safetensors")
    Traceback (most recent call last):
      ...
    neuralfield.system.errors.MissingFileError: nowhere.safetensors: ...
    """
    path = require_path("path", path)
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.exists():
        raise MissingFileError(str(path), "there is no such file", "a network that was saved")
    require_device(device)
    kind = _kind(path)
    if kind == TableModel.kind:
        return TableRegressor.of_model(TableModel.load(path))
    if kind == ClassifierModel.kind:
        return ImageClassifier.of_model(ClassifierModel.load(path))
    model = Model.load(path)
    values = None if image is None else training_image(image).values
    measured_db = measured(path, "psnr_db")
    history, checkpoints = path.with_name("history.csv"), path.with_name("checkpoints")
    is_final = path.name == "model.safetensors" and history.exists()
    return ImageField(
        model,
        device=device,
        history=read_history(history) if is_final else None,
        image=values,
        measured_db=measured_db,
        checkpoints=checkpoints if is_final and checkpoints.is_dir() else None,
    )


def _kind(path: Path) -> Any:
    """Return the kind of network that the file stores; None for a field."""
    try:
        return load_arrays(path)[1].get("kind")
    except CheckpointError as error:
        # the original error advises to make the file again, which holds for the workflow only
        expected = "a network that neuralfield has saved, as a .safetensors file"
        raise CheckpointError(error.where, error.found, expected) from error
