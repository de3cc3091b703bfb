"""Networks fitted to tables, with the interface of scikit-learn's regressors and classifiers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.api.arguments import argument_names
from neuralfield.api.estimators import (
    Classifier,
    Estimator,
    classes_of,
    column_names,
    numbers,
    plain_settings,
    require_columns,
    require_same_length,
    require_targets,
    weights_of,
)
from neuralfield.api.run_training import run_training
from neuralfield.system.errors import InputError
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.table.samples import Samples
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.tasks.table.table_task import TableTask
from neuralfield.tasks.training_settings import ImageExecution, SampleTraining


@dataclass(kw_only=True, repr=False, eq=False)
class TableNetwork(Estimator):
    """Base class of the regressor and the classifier of tables; see `TableRegressor`."""

    widths: Sequence[int] = (32, 32)
    activation: str = "tanh"
    learning_rate: float = 1e-2
    scale_inputs: str = "standard"
    device: str = "cpu"

    model_: TableModel = field(init=False)
    n_features_in_: int = field(init=False)

    def _train(
        self,
        inputs: Any,
        targets: np.ndarray,
        names: tuple[str, ...],
        *,
        output: str,
        loss: str,
        scale_targets: str,
    ) -> None:
        """Train a network, and store it with the columns that `predict` will require.

        No attribute is changed before the training has ended.
        """
        values, columns = numbers(inputs, "X", dimensions=(2,)), column_names(inputs)
        require_same_length(values, targets)
        inputs_named = columns or tuple(f"x{index}" for index in range(values.shape[1]))
        require_columns("X", inputs_named)
        require_columns("y", names)
        training = self._training_settings(loss=loss)
        network = {"widths": self.widths, "activation": self.activation, "output": output}
        network["bias"] = training.pop("bias", True)
        task = TableTask(
            Samples("X", inputs_named, names, values, targets),
            Dense.from_mapping(plain_settings(network)),
            SampleTraining.from_mapping(training),
            self.scale_inputs,
            scale_targets,
        )
        self.model_, self.history_ = run_training(
            task, self.folder, ImageExecution(device=self.device, threads=1)
        )
        self.n_features_in_ = values.shape[1]
        vars(self).pop("feature_names_in_", None)
        if columns is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _outputs(self, inputs: Any) -> np.ndarray:
        """Evaluate the network in the precision of its training; shape (n, targets)."""
        self._require_fitted()
        values = numbers(inputs, "X", dimensions=(2,))
        if values.shape[1] != self.n_features_in_:
            found = f"X has {values.shape[1]} features, but {type(self).__name__} is expecting"
            found = f"{found} {self.n_features_in_} features as input"
            raise InputError("X", found, "the columns that were passed to fit")
        columns = column_names(inputs)
        own = getattr(self, "feature_names_in_", None)
        if own is not None and columns is not None and tuple(own) != columns:
            found = f"The feature names should match those that were passed: {columns}"
            raise InputError("X", found, f"{tuple(own)}, in this order")
        return self.model_.predict(values)


@dataclass(kw_only=True, repr=False, eq=False)
class TableRegressor(TableNetwork):
    """A fully connected network from the columns of a table to one or several targets.

    It has the interface of scikit-learn's regressors, and gives the same results as the workflow's
    networks of tables.

    Parameters
    ----------
    widths : sequence of int
        Number of outputs of each hidden layer; () means no hidden layers: a linear regression.
    activation : str
    steps : int
        Number of weight updates.
    learning_rate : float
    batch_samples : int
        Number of rows in each step's batch; 0 means all.
    optimizer : {"adam", "muon", "sgd"}
    scale_inputs, scale_targets : {"standard", "range", "none"}
        Scaling of the columns of inputs and targets; see ``docs/tables.md``.
    loss : {"mse", "huber"}
    random_state : int, RandomState or None
        The seed; None means 0.
    device : {"cpu", "gpu", "auto"}
        Networks for tables are small, so a GPU is seldom faster.
    folder : path, optional
        Folder for the model, the history and the state of the training. A later `fit` with the same
        folder resumes a training that was interrupted.
    settings : mapping, optional
        Further settings of the training (``schedule``, ``keep_best`` ...), and ``bias``.

    Attributes
    ----------
    model_ : neuralfield.tasks.table.table_model.TableModel
    history_ : dict of str to ndarray
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Column names; set only if `fit` was given a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralfield import TableRegressor
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> regressor = TableRegressor(widths=(), steps=300).fit(X, 3 * X[:, 0] + 1)
    >>> regressor.predict([[0.5]]).round(2)
    array([2.5])
    """

    scale_targets: str = "standard"
    loss: str = "mse"

    @classmethod
    def of_model(cls, model: TableModel) -> Self:
        """Return a regressor with a fitted network, from this package or the workflow.

        If the outputs of the network are sigmoids, `predict` returns probabilities.
        """
        found = cls._fitted(model, ("widths", "activation"))
        found.n_features_in_ = len(model.inputs)
        found.feature_names_in_ = np.array(model.inputs, dtype=object)
        found._has_one_target = len(model.targets) == 1
        return found

    @argument_names()
    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit the network to rows and their targets.

        Parameters
        ----------
        X : array or data frame, shape (n, inputs)
        y : array or data frame, shape (n,) or (n, targets)

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A setting is out of range, the shapes do not match, or there are NaN or infinity.
        """
        require_targets(y)
        targets = numbers(y, "y", dimensions=(1, 2))
        has_one_target = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        names = column_names(y) or tuple(f"y{index}" for index in range(targets.shape[1]))
        how = {"loss": self.loss, "scale_targets": self.scale_targets}
        self._train(X, targets, names, output="linear", **how)
        self._has_one_target = has_one_target
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the targets of rows; float64, shape (n,) or (n, targets) as in `fit`."""
        found = self._outputs(X)
        return found[:, 0] if self._has_one_target else found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R squared: 1 for perfect predictions, 0 for always predicting the mean."""
        found, truth = self.predict(X), numbers(y, "y", dimensions=(1, 2))
        require_same_length(found, truth)
        weights = weights_of(sample_weight, len(truth))
        shape = (len(truth), -1)
        found, truth, weights = found.reshape(shape), truth.reshape(shape), weights.reshape(shape)
        mean = (weights * truth).sum(axis=0) / weights.sum()
        errors = (weights * (truth - found) ** 2).sum(axis=0)
        spread = (weights * (truth - mean) ** 2).sum(axis=0)
        shares = np.divide(errors, spread, out=(errors > 0) * 1.0, where=spread > 0)
        return float(1 - shares.mean())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        targets = TargetTags(required=True, multi_output=True)
        return Tags("regressor", targets, regressor_tags=RegressorTags())


class TableClassifier(Classifier, TableNetwork):
    """A fully connected network from the columns of a table to the probability of each class.

    For two classes, the network has one sigmoid output: the probability of the second class. For
    more classes, it has one sigmoid output per class, and the probabilities are these outputs
    divided by their sum. The loss is binary cross-entropy.

    Parameters and attributes are those of `TableRegressor`, without `scale_targets` and `loss`. The
    attribute ``classes_`` holds the sorted labels.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralfield import TableClassifier
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> classifier = TableClassifier(widths=(), steps=300).fit(X, np.where(X[:, 0] > 0, "b", "a"))
    >>> classifier.predict([[-0.8], [0.8]]).tolist()
    ['a', 'b']
    """

    @argument_names()
    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit the network to rows and their classes.

        Parameters
        ----------
        X : array or data frame, shape (n, inputs)
        y : array, shape (n,)
            Labels of any sortable type; at least two different ones.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `TableRegressor.fit`, or there is only one class.
        """
        classes, numbers_of_classes = classes_of(y)
        targets, names = np.eye(len(classes))[numbers_of_classes], tuple(map(str, classes))
        if len(names) == 2:
            targets, names = targets[:, 1:], names[1:]
        how = {"loss": "binary_cross_entropy", "scale_targets": "none"}
        self._train(X, targets, names, output="sigmoid", **how)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        found = self._outputs(X)
        if len(self.classes_) == 2:
            return np.concatenate([1 - found, found], axis=1)
        found = found + np.finfo(np.float32).tiny
        return found / found.sum(axis=1, keepdims=True)
