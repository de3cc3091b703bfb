"""Implements the interface that scikit-learn expects of estimators, without depending on it."""

import inspect
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from neuralfield.api.errors import InvalidInputError, WrongTypeError, built_in_kinds
from neuralfield.tasks.table.samples import LARGEST_NUMBER
from neuralfield.training.history import History


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before `fit`."""


class Estimator:
    """Parameters by name, as scikit-learn's ``BaseEstimator`` has them.

    What ``__init__`` is given is kept unchanged, and checked by `fit`.
    """

    model_: Any
    history_: History

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return sorted(set(inspect.signature(cls.__init__).parameters) - {"self"})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name; `deep` has no effect."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters.

        Raises
        ------
        ValueError
            There is no such parameter.
        """
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                found = f"Invalid parameter {name!r} of {type(self).__name__}"
                raise ValueError(f"{found}; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def _changed(self) -> dict[str, Any]:
        """Return the parameters that are not the default ones."""
        defaults = inspect.signature(type(self).__init__).parameters
        return {
            name: value
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        }

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}={value!r}" for name, value in self._changed().items())
        return f"{type(self).__name__}({changed})"

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            # whoever uses scikit-learn catches its own error
            module = sys.modules.get("sklearn.exceptions")
            kind = getattr(module, "NotFittedError", NotFittedError)
            raise kind(f"This {type(self).__name__} is not fitted yet; call 'fit' first.")

    def save(self, path: str | os.PathLike) -> None:
        """Write the network to a file, as ``model.safetensors`` of the workflow.

        Parameters
        ----------
        path : path
        """
        self._require_fitted()
        with built_in_kinds():
            self.model_.write(Path(path))

    def _tags(self, estimator_type: str, **tags: Any) -> Any:
        """Return the tags that scikit-learn asks for; it is there whenever it does."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type, TargetTags(required=True), **tags)


def seed_of(random_state: Any) -> int:
    """Return the seed that a ``random_state`` of scikit-learn stands for."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        expected = "a whole number, a RandomState, or None"
        raise InvalidInputError("random_state", repr(random_state), expected)
    return int(random_state)


def labels_of(y: Any) -> np.ndarray:
    """Return labels as an array of one dimension; numbers among them are whole.

    Raises
    ------
    ValueError
        There are none, not one for each row, or they are no classes.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        module = sys.modules.get("sklearn.exceptions")
        kind = getattr(module, "DataConversionWarning", UserWarning)
        warnings.warn("A column-vector y was passed when a 1d array was expected", kind, 3)
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise InvalidInputError("y", f"bad input shape {labels.shape}", "a label for each row")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InvalidInputError("y", "Input contains NaN or infinity", "labels")
        if (labels != np.floor(labels)).any():
            found, expected = "Unknown label type: continuous", "classes: maybe use a regressor"
            raise InvalidInputError("y", found, expected)
    return labels


def classes_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, sorted, and the number of each row's class; raises as `labels_of`."""
    classes, numbers_of_classes = np.unique(labels_of(y), return_inverse=True)
    if len(classes) < 2:
        found = f"one class only, {classes[0]!r}"
        raise InvalidInputError("y", found, "two classes or more")
    return classes, numbers_of_classes


def column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, where all are text."""
    columns = getattr(table, "columns", None)
    names = [] if columns is None else list(columns)
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def numbers(values: Any, where: str, *, dimensions: tuple[int, ...]) -> np.ndarray:
    """Return values as float64, of one of so many dimensions, with at least one row and column.

    Raises
    ------
    ValueError
        Another number of dimensions, no rows or columns, complex numbers, text, NaN or infinity.
    TypeError
        A sparse matrix, or what is no array of numbers.
    """
    if hasattr(values, "tocsr"):
        remedy = "use .toarray()"
        raise WrongTypeError(where, "a sparse matrix", "dense data", remedy)
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise InvalidInputError(where, "Complex data not supported", "real numbers")
    try:
        array = array.astype(np.float64)
    except TypeError as error:
        found = f"{error} (argument must be a string or a number)"
        raise WrongTypeError(where, found, "numbers") from error
    except ValueError as error:
        raise InvalidInputError(where, str(error), "numbers") from error
    if array.ndim not in dimensions:
        found = f"{array.ndim}-dimensional data of shape {array.shape}. Reshape your data"
        expected = "as many dimensions as " + " or ".join(map(str, dimensions))
        raise InvalidInputError(where, found, expected)
    if len(array) == 0:
        found = f"Found array with 0 sample(s) (shape={array.shape})"
        raise InvalidInputError(where, found, "a minimum of 1 is required.")
    if array.ndim == 2 and array.shape[1] == 0:
        found = f"Found array with 0 feature(s) (shape={array.shape})"
        raise InvalidInputError(where, f"{found} while a minimum of 1 is required.", "columns")
    if not (np.abs(array) <= LARGEST_NUMBER).all():
        found = "Input contains NaN, infinity or a value too large"
        raise InvalidInputError(where, found, f"numbers of at most {LARGEST_NUMBER:g} in size")
    return array


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without types of NumPy, which files cannot hold."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in settings.items()
    }
