"""The interface that scikit-learn expects of estimators, without depending on scikit-learn."""

import inspect
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.api.arguments import as_array, plain, require_mapping, require_output
from neuralfield.system.errors import (
    ConfigError,
    InputError,
    WrongTypeError,
)
from neuralfield.system.input_files import MOST_COLUMNS
from neuralfield.tasks.stored_model import StoredModel
from neuralfield.tasks.table.samples import LARGEST_NUMBER
from neuralfield.training.history import History


class NotFittedError(InputError, AttributeError):
    """An estimator was used before `fit` was called."""

    def __reduce__(self) -> Any:
        return _not_fitted, (self.where,)


def _not_fitted(where: str) -> NotFittedError:
    """Return an error, which is also scikit-learn's own NotFittedError if that has been imported.

    The class is created here, because scikit-learn is not a dependency.
    """
    kind = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    kinds = (NotFittedError, kind) if kind else (NotFittedError,)
    return type("NotFittedError", kinds, {})(where, "it is not fitted yet", "a call of fit first")


@dataclass(kw_only=True, repr=False, eq=False)
class Estimator:
    """Base class with named parameters, as scikit-learn's ``BaseEstimator``.

    ``__init__`` stores its arguments unchanged; `fit` checks them.
    """

    steps: int = 2000
    learning_rate: float = 1e-3
    batch_samples: int = 256
    optimizer: str = "adam"
    random_state: int | np.random.RandomState | None = 0
    device: str = "auto"
    folder: str | os.PathLike | None = None
    settings: Mapping[str, Any] | None = None

    model_: Any = field(init=False)
    history_: History = field(init=False)

    @classmethod
    def _fitted(cls, model: StoredModel[Any], names: Sequence[str]) -> Self:
        """Return an estimator with a fitted network and the settings of that network."""
        found = cls(**{name: getattr(model.settings, name) for name in names})
        found.model_, found.history_ = model, {}
        return found

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
            A parameter has an unknown name.
        """
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                found = f"Invalid parameter {name!r} of {type(self).__name__}"
                raise ConfigError("set_params", found, f"one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(type(self).__name__)

    def save(self, path: str | os.PathLike) -> None:
        """Write the network to a file, as ``model.safetensors`` of the workflow.

        Parameters
        ----------
        path : path
        """
        self._require_fitted()
        self.model_.write(require_output("path", path))

    def _training_settings(self, **further: Any) -> dict[str, Any]:
        """Return the settings of the training, with `further` settings of the subclass."""
        names = ("steps", "learning_rate", "batch_samples", "optimizer")
        given = {name: getattr(self, name) for name in names}
        given |= {"random_seed": seed_of(self.random_state), **further}
        return plain_settings(given, self.settings)


class Classifier(Estimator):
    """Base class of classifiers: implements `predict` and `score` with ``predict_proba``."""

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class; float64, shape (n, classes)."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the label of each row or image, shape (n,)."""
        places = self.predict_proba(X).argmax(axis=1)
        return self.classes_[places]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy: the fraction of labels that are predicted correctly."""
        found, truth = self.predict(X), labels_of(y)
        require_same_length(found, truth)
        weights = weights_of(sample_weight, len(truth))
        return float(np.average(found == truth, weights=weights))

    def __sklearn_tags__(self) -> Any:
        # only scikit-learn calls this, so it is installed then
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags())


def require_same_length(inputs: np.ndarray, targets: np.ndarray) -> None:
    """Raise an error unless there is exactly one target for each row or image."""
    if len(inputs) != len(targets):
        found = f"inconsistent numbers of samples: {len(inputs)} in X and {len(targets)} in y"
        raise InputError("X and y", found, "as many rows in X as in y")


def weights_of(sample_weight: Any, count: int) -> np.ndarray:
    """Return the weights of rows in a score as float64, shape (count,); None weights all equally.

    Raises ValueError unless there is a finite weight >= 0 for each row, and one that is not zero.
    """
    if sample_weight is None:
        return np.ones(count)
    weights = numbers(sample_weight, "sample_weight", dimensions=(1,))
    if len(weights) != count:
        found = f"{len(weights)} weights for {count} rows"
        raise InputError("sample_weight", found, "a weight for each row")
    if (weights < 0).any() or not weights.any():
        found = "negative weights" if (weights < 0).any() else "only zeros"
        raise InputError("sample_weight", found, "weights >= 0, not all of them 0")
    return weights


def seed_of(random_state: Any) -> int:
    """Return the seed for a ``random_state``, as scikit-learn defines this argument."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    is_whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not is_whole or random_state < 0:
        expected = "a whole number >= 0, a RandomState, or None"
        raise InputError("random_state", repr(random_state), expected)
    return int(random_state)


def labels_of(y: Any) -> np.ndarray:
    """Return labels as a 1-dimensional array; numeric labels must be whole numbers.

    Raises ValueError if there are no labels, more than one for a row, or labels that are not
    classes (NaN, infinity or fractions).
    """
    require_targets(y)
    labels = as_array("y", y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        module = sys.modules.get("sklearn.exceptions")
        kind = getattr(module, "DataConversionWarning", UserWarning)
        warnings.warn("A column-vector y was passed when a 1d array was expected", kind, 3)
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise InputError("y", f"bad input shape {labels.shape}", "a label for each row")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("y", "Input contains NaN or infinity", "labels")
        if (labels != np.floor(labels)).any():
            found, expected = "Unknown label type: continuous", "classes: maybe use a regressor"
            raise InputError("y", found, expected)
    return labels


def require_targets(y: Any) -> None:
    """Raise an error if no targets are given."""
    if y is None:
        expected = "a target for each row of X"
        raise InputError("y", "requires y to be passed, but the target y is None", expected)


def classes_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes, and the index of each row's class; raises as `labels_of`."""
    labels = labels_of(y)
    try:
        classes, numbers_of_classes = np.unique(labels, return_inverse=True)
    except TypeError as error:  # labels that cannot be sorted
        raise WrongTypeError("y", str(error), "labels of one type") from error
    if len(classes) < 2:
        found = f"only one class, {classes[0]}"
        raise InputError("y", found, "two classes or more")
    return classes, numbers_of_classes


def column_names(table: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None if there are none or not all are text."""
    columns = getattr(table, "columns", None)
    names = [] if columns is None else list(columns)
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def require_columns(where: str, names: Sequence[str]) -> None:
    """Raise an error unless a file can hold these columns: not too many, and of different names."""
    if len(names) > MOST_COLUMNS:
        raise InputError(where, f"{len(names):,} columns", f"at most {MOST_COLUMNS:,}")
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        found, remedy = f"several columns named {twice!r}", "rename or remove them"
        raise InputError(where, found, "columns of different names", remedy)


def numbers(values: Any, where: str, *, dimensions: tuple[int, ...]) -> np.ndarray:
    """Return values as a float64 array whose number of dimensions is one of `dimensions`.

    Raises TypeError for a sparse matrix or values that are not numbers, and ValueError for another
    number of dimensions, no rows or columns, complex numbers, text, NaN and infinity.
    """
    if hasattr(values, "tocsr"):
        remedy = "use .toarray()"
        raise WrongTypeError(where, "a sparse matrix", "dense data", remedy)
    array = as_array(where, values)
    if array.dtype.kind == "c":
        raise InputError(where, "Complex data not supported", "real numbers")
    try:
        array = array.astype(np.float64)
    except TypeError as error:
        found = f"{error} (argument must be a string or a number)"
        raise WrongTypeError(where, found, "numbers") from error
    except ValueError as error:
        raise InputError(where, str(error), "numbers") from error
    if array.ndim not in dimensions:
        found = f"{array.ndim}-dimensional data of shape {array.shape}. Reshape your data"
        expected = f"{' or '.join(map(str, dimensions))} dimension{'s' * (dimensions != (1,))}"
        raise InputError(where, found, expected)
    if len(array) == 0:
        found = f"Found array with 0 sample(s) (shape={array.shape})"
        raise InputError(where, found, "a minimum of 1 is required.")
    if array.ndim == 2 and array.shape[1] == 0:
        found = f"Found array with 0 feature(s) (shape={array.shape})"
        raise InputError(where, f"{found} while a minimum of 1 is required.", "columns")
    if not (np.abs(array) <= LARGEST_NUMBER).all():
        found = "Input contains NaN, infinity or a value too large"
        raise InputError(where, found, f"numbers of at most {LARGEST_NUMBER:g} in size")
    return array


def plain_settings(given: Mapping[str, Any], further: Any = None) -> dict[str, Any]:
    """Merge settings, with NumPy types converted to Python's (see `plain`) and lists to tuples."""
    require_mapping("settings", further or {})
    return {name: plain(value) for name, value in {**given, **(further or {})}.items()}
