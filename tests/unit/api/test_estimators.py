"""Tables and classifiers with the interface of scikit-learn."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_classifiers import SMALL, bars

import neuralfield as nf
import train_table
from neuralfield.system.provenance import sha256_of as sha256

X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
Y = X[:, 0] - 2 * X[:, 1]
QUICK: dict[str, Any] = {"steps": 60, "learning_rate": 0.05, "settings": {"snapshots": 2}}


def test_a_regressor_has_the_bytes_of_the_workflow(tmp_path):
    frame = pd.DataFrame({"width": X[:, 0], "height": X[:, 1], "area": Y})
    frame.to_csv(tmp_path / "table.csv", index=False)
    network = {"widths": [4], "activation": "tanh", "bias": True, "output": "linear"}
    train_table.main(
        tmp_path / "table.csv",
        tmp_path / "model.safetensors",
        settings={
            "inputs": ["width", "height"],
            "targets": ["area"],
            "network": network,
            "scale_inputs": "standard",
            "scale_targets": "auto",
            "held_out_share": 0.0,
        },
        training={"steps": 9, "learning_rate": 0.01, "random_seed": 7},
        execution={"time_margin_s": 60, "device": "cpu", "checkpoint_interval_s": 30},
        threads=1,
    )
    regressor = nf.TableRegressor(widths=(4,), steps=9, random_state=7)
    regressor.fit(frame[["width", "height"]], frame[["area"]]).save(tmp_path / "own")
    assert sha256(tmp_path / "own") == sha256(tmp_path / "model.safetensors")
    assert regressor.feature_names_in_.tolist() == ["width", "height"]


def test_a_regressor_learns_and_is_loaded_again(tmp_path):
    regressor = nf.TableRegressor(widths=(8,), **QUICK).fit(X, Y)
    assert regressor.score(X, Y) > 0.95 and regressor.predict(X).shape == (80,)
    assert regressor.history_["step"][-1] == 60
    regressor.save(tmp_path / "model.safetensors")
    found = nf.load(tmp_path / "model.safetensors")
    assert isinstance(found, nf.TableRegressor) and "widths=(8,)" in repr(found)
    np.testing.assert_array_equal(found.predict(X), regressor.predict(X))
    both = nf.TableRegressor(widths=(8,), **QUICK).fit(X, np.stack([Y, -Y], axis=1))
    assert both.predict(X[:3]).shape == (3, 2)


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"]])
def test_a_classifier_of_tables_gives_probabilities(classes):
    labels = np.array(classes)[np.digitize(Y, [-0.5, 0.5][: len(classes) - 1])]
    classifier = nf.TableClassifier(widths=(8,), **QUICK).fit(X, labels)
    assert classifier.score(X, labels) > 0.9
    probabilities = classifier.predict_proba(X)
    assert probabilities.shape == (80, len(classes)) and (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert classifier.classes_.tolist() == classes


def test_a_classifier_of_images(tmp_path):
    labelled, names = bars(), np.array(["lying", "standing", "crossing"])
    given: dict[str, Any] = {**SMALL, "dropout": 0.0, **QUICK, "learning_rate": 1e-2}
    classifier = nf.ImageClassifier(**given, device="cpu")
    classifier.fit(labelled.images, names[labelled.labels])
    assert classifier.score(labelled.images, names[labelled.labels]) > 0.9
    assert classifier.classes_.tolist() == sorted(names)
    probabilities = classifier.predict_proba(labelled.images)
    np.testing.assert_allclose(classifier.predict_proba(labelled.images / 255), probabilities)
    classifier.save(tmp_path / "model.safetensors")
    found = nf.load(tmp_path / "model.safetensors")
    assert isinstance(found, nf.ImageClassifier)
    np.testing.assert_array_equal(found.predict_proba(labelled.images), probabilities)


BARS = bars().images
MANY, LARGE = np.zeros((300, 28, 28), np.uint8), np.zeros((2, 9, 5000), bool)
MISTAKES = {
    "NaN": (nf.TableRegressor, np.full((3, 2), np.nan), Y[:3], ValueError, "NaN"),
    "infinity": (nf.TableRegressor, X, Y * np.inf, ValueError, "NaN, infinity"),
    "one axis": (nf.TableRegressor, Y, Y, ValueError, "Reshape your data"),
    "one class": (nf.TableClassifier, X, Y * 0, ValueError, "only one class"),
    "flat images": (nf.ImageClassifier, X, Y > 0, ValueError, "height, width"),
    "wide levels": (nf.ImageClassifier, BARS.astype(int), Y[:60] > 0, TypeError, "int64.*uint8"),
    "images of NaN": (nf.ImageClassifier, BARS * np.nan, Y[:60] > 0, ValueError, "X: NaN"),
    "large floats": (nf.ImageClassifier, BARS * 1.0, Y[:60] > 0, ValueError, "divide"),
    "small images": (nf.ImageClassifier, BARS, Y[:60] > 0, ValueError, "of a window"),
    "rows of several lengths": (nf.TableRegressor, [[1.0], [1.0, 2.0]], Y[:2], ValueError, "^X: "),
    "unsortable labels": (nf.TableClassifier, X, [None] * 80, TypeError, "^y: "),
    "equal names": (nf.TableRegressor, pd.DataFrame(X, columns=["a", "a"]), Y, ValueError, "'a'"),
    "many columns": (nf.TableRegressor, np.eye(3, 10_001), Y[:3], ValueError, "10,001 columns"),
    "many classes": (nf.ImageClassifier, MANY, np.arange(300), ValueError, "^y: 300 classes"),
    "large images": (nf.ImageClassifier, LARGE, [0, 1], ValueError, "5,000 x 9 pixels"),
}


@pytest.mark.parametrize(("kind", "x", "y", "error", "match"), MISTAKES.values(), ids=MISTAKES)
def test_data_that_cannot_be_fitted(kind, x, y, error, match):
    with pytest.raises(error, match=match) as caught:
        kind(steps=2).fit(x, y)
    assert isinstance(caught.value, nf.NeuralfieldError)


@pytest.mark.parametrize(
    ("kind", "given", "match"),
    [
        (nf.TableRegressor, {"steps": 0}, "^steps: 0"),
        (nf.TableRegressor, {"widths": (0,)}, "^widths: "),
        (nf.TableRegressor, {"widths": (2.7,)}, "^widths: "),
        (nf.TableRegressor, {"random_state": -1}, "^random_state: -1"),
        (nf.TableRegressor, {"loss": "mae"}, "^loss: 'mae'; expected"),
        (nf.TableClassifier, {"activation": "gelu"}, "^activation: "),
        (nf.TableClassifier, {"settings": {"momentun": 1}}, "did you mean momentum"),
    ],
)
def test_settings_that_cannot_be(kind, given, match):
    with pytest.raises(ValueError, match=match):
        kind(**given).fit(X, Y > 0)


@pytest.mark.parametrize("kind", [nf.TableRegressor, nf.TableClassifier, nf.ImageClassifier])
def test_a_fit_that_fails_changes_nothing(kind):
    x, y = (BARS, Y[:60] > 0) if kind is nf.ImageClassifier else (X, Y > 0)
    network: dict[str, Any] = (
        {"kernel": 3, "padding": 1} if kind is nf.ImageClassifier else {"widths": ()}
    )
    fitted = kind(**network, steps=2, device="cpu").fit(x, y)
    before, answers = dict(vars(fitted)), fitted.predict(x)
    for wrong in (["p", "q", "r"], np.arange(3)):
        with pytest.raises(ValueError, match=r"y|X and y"):
            fitted.fit(x[:2], wrong)
    assert vars(fitted) == before
    np.testing.assert_array_equal(fitted.predict(x), answers)
    fresh = kind(**network, steps=0)
    with pytest.raises(ValueError, match="steps"):
        fresh.fit(x, y)
    with pytest.raises(ValueError, match="not fitted yet"):
        fresh.predict(x)


def test_what_is_not_fitted_and_other_columns():
    with pytest.raises(ValueError, match="not fitted yet"):
        nf.TableClassifier().predict(X)
    regressor = nf.TableRegressor(widths=(), steps=2).fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    with pytest.raises(ValueError, match="X has 1 features, but TableRegressor"):
        regressor.predict(X[:, :1])
    with pytest.raises(ValueError, match="feature names"):
        regressor.predict(pd.DataFrame(X, columns=["b", "a"]))
    classifier = nf.TableClassifier(widths=(), steps=2).fit(X, Y > 0)
    with pytest.raises(ValueError, match="80 in X and 79 in y"):
        classifier.score(X, Y[1:] > 0)


@pytest.mark.parametrize("kind", [nf.TableRegressor, nf.ImageClassifier])
def test_what_is_not_fitted_raises_an_error_of_both_packages(kind, tmp_path):
    exceptions = pytest.importorskip("sklearn.exceptions")
    for use in (lambda: kind().predict(X), lambda: kind().save(tmp_path / "model")):
        with pytest.raises(exceptions.NotFittedError, match="not fitted yet") as caught:
            use()
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert isinstance(error, nf.NeuralfieldError)
            assert isinstance(error, exceptions.NotFittedError)
            assert str(error) == str(caught.value)


@pytest.mark.parametrize("kind", [nf.TableRegressor, nf.TableClassifier])
@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.ones(3), "3 weights for 80 rows"),
        (np.zeros(80), "only zeros"),
        (-np.ones(80), "negative"),
        (np.full(80, np.nan), "NaN"),
        (np.ones((80, 1)), "2-dimensional data .*; expected 1 dimension$"),
    ],
)
def test_weights_that_cannot_be(kind, weights, match):
    fitted = kind(widths=(), steps=2).fit(X, Y > 0)
    with pytest.raises(ValueError, match=f"^sample_weight: .*{match}") as caught:
        fitted.score(X, Y > 0, weights)
    assert isinstance(caught.value, nf.NeuralfieldError)


def test_weights_count_rows_several_times():
    doubled = np.r_[2, np.ones(79)]
    for kind in (nf.TableRegressor, nf.TableClassifier):
        fitted = kind(widths=(), steps=2).fit(X, Y > 0)
        again = fitted.score(np.r_[X[:1], X], np.r_[Y[:1], Y] > 0)
        assert fitted.score(X, Y > 0, doubled) == pytest.approx(again)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nf.TableRegressor, nf.TableClassifier])
def test_scikit_learn_finds_nothing_to_mend(kind):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    # in float32, a product of matrices can depend on the order of the rows by more than is allowed
    checks.check_estimator(kind(settings={"precision": "float64"}), on_skip=None)
