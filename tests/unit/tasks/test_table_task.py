"""Networks that are fitted to tables: they learn, and recover as the trainings of fields do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import test_fit
from sklearn.linear_model import LogisticRegression

import evaluate_table
from neuralfield.nn.layers import ACTIVATIONS
from neuralfield.system.checkpoint import load_arrays
from neuralfield.system.errors import CheckpointError, ConfigError, InputError
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.table.samples import Samples, read_samples
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.tasks.table.table_task import TableTask
from neuralfield.tasks.training_settings import SampleTraining

SHIPPED = Path(__file__).parents[3] / "workflow" / "resources" / "tables"


def shipped(name, inputs, targets):
    return read_samples(SHIPPED / f"{name}.csv", inputs, targets)


def made(inputs, targets):
    """Return samples made from arrays."""
    names = tuple(f"x{n}" for n in range(inputs.shape[1]))
    answers = tuple(f"y{n}" for n in range(targets.shape[1]))
    return Samples("made.csv", names, answers, inputs.astype(float), targets.astype(float))


def curve(rows=80):
    x = np.linspace(-3, 5, rows)[:, None]
    return made(x, np.concatenate([np.sin(x), 100 + 40 * x**2], axis=1))


def make_task(samples=None, network=None, training=None, **settings):
    small: dict[str, Any] = {"steps": 40, "batch_samples": 16, "snapshots": 5}
    narrow: dict[str, Any] = {"widths": (8,)}
    return TableTask(
        samples or curve(),
        Dense(**(narrow | (network or {}))),
        SampleTraining.from_mapping(small | (training or {})),
        **settings,
    )


def train(task, folder, **run_settings):
    """Train to the end, and return the network and the reported lines."""
    messages = test_fit.train(task, folder, **run_settings)
    return TableModel.load(folder / "model.safetensors"), messages


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_xor_is_learned_exactly(tmp_path, seed):
    samples = shipped("xor", ["a", "b"], ["a_xor_b"])
    loss = {"loss": "binary_cross_entropy", "steps": 1000, "learning_rate": 0.03}
    task = make_task(samples, {"widths": (4,), "output": "sigmoid"}, loss | {"random_seed": seed})
    model, _ = train(task, tmp_path)
    answers = model.predict(samples.input_values)
    np.testing.assert_allclose(answers, samples.target_values, atol=0.02)
    history = pd.read_csv(tmp_path / "history.csv")
    assert list(history)[:4] == ["step", "seconds", "loss", "accuracy"]
    assert history.accuracy.iloc[0] < 1 and history.accuracy.iloc[-1] == 1


def test_without_hidden_layers_it_is_the_logistic_regression_of_scikit_learn(tmp_path):
    samples = shipped("two_clouds", ["length_mm", "weight_mg"], ["is_second"])
    loss = {"loss": "binary_cross_entropy", "steps": 1000, "learning_rate": 0.1}
    network = {"widths": (), "output": "sigmoid"}
    task = make_task(samples, network, loss | {"batch_samples": 0})
    model, _ = train(task, tmp_path)
    classes = samples.target_values[:, 0]
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    theirs.fit(samples.input_values, classes)
    weights, intercepts = model.coefficients()
    np.testing.assert_allclose(weights[:, 0], theirs.coef_[0], rtol=1e-3)
    np.testing.assert_allclose(intercepts, theirs.intercept_, rtol=1e-3)
    answers = model.predict(samples.input_values)[:, 0]
    accuracy = np.mean((answers >= 0.5) == classes)
    assert accuracy == theirs.score(samples.input_values, classes)
    z = samples.input_values @ weights + intercepts
    np.testing.assert_allclose(1 / (1 + np.exp(-z[:, 0])), answers, atol=1e-5)
    assert pd.read_csv(tmp_path / "history.csv").accuracy.iloc[-1] == pytest.approx(accuracy)


@pytest.mark.parametrize("scale_inputs", ["standard", "range"])
def test_without_hidden_layers_it_is_the_least_squares_solution(tmp_path, scale_inputs):
    generator = np.random.default_rng(5)
    inputs = generator.normal(size=(60, 3)) * [1, 50, 0.02] + [3, -900, 1]
    targets = inputs @ generator.normal(size=(3, 2)) * [1, 1000] + generator.normal(size=(60, 2))
    samples = made(inputs, targets)
    settings = {"steps": 1500, "learning_rate": 0.1, "batch_samples": 0}
    model, _ = train(
        make_task(samples, {"widths": ()}, settings, scale_inputs=scale_inputs), tmp_path
    )
    columns = np.column_stack([inputs, np.ones(60)])
    solution = np.linalg.lstsq(columns, targets, rcond=None)[0]
    np.testing.assert_allclose(
        model.predict(inputs), columns @ solution, atol=1e-3 * targets.std(axis=0).min()
    )
    weights, intercepts = model.coefficients()
    np.testing.assert_allclose(weights, solution[:-1], rtol=0.01, atol=0.01 * abs(weights).min())
    off = (intercepts - solution[-1]) / targets.std(axis=0)
    np.testing.assert_allclose(off, 0, atol=0.01)


@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_a_curve_is_learned_in_the_targets_own_units(tmp_path, loss):
    task = make_task(
        network={"widths": (16, 16)},
        training={"steps": 800, "learning_rate": 0.03, "loss": loss, "huber_delta": 0.5},
    )
    model, _ = train(task, tmp_path)
    answers = model.predict(task.samples.input_values)
    off = np.sqrt(((answers - task.samples.target_values) ** 2).mean(axis=0))
    spread = task.samples.target_values.std(axis=0)
    assert (off < 0.1 * spread).all()
    history = pd.read_csv(tmp_path / "history.csv")
    untrained = history.rmse.iloc[0]
    assert 0.5 * spread.max() < untrained < 5 * spread.max(), "in units of the larger target"
    assert history.rmse.iloc[-1] == pytest.approx(np.sqrt((off**2).mean()), rel=0.3)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_every_activation_learns(tmp_path, activation, bias):
    network = {"widths": (12, 12), "activation": activation, "bias": bias}
    task = make_task(network=network, training={"steps": 200})
    train(task, tmp_path)
    history = pd.read_csv(tmp_path / "history.csv")
    most = 0.6 if bias else 0.9  # without biases, networks with tanh and sine are odd functions
    assert history.loss.iloc[-1] < most * history.loss.iloc[0]


def test_rows_that_are_held_out_are_not_trained(tmp_path):
    samples = curve()
    task = make_task(samples, held_out_share=0.25)
    assert (task.held_out.sum(), task.training_rows.count) == (20, 60)
    wild = np.where(task.held_out[:, None], 1e6, samples.target_values)
    other = made(samples.input_values, wild)
    for name, rows in (("tame", samples), ("wild", other)):
        train(make_task(rows, held_out_share=0.25), tmp_path / name)
    tame, wild = (
        load_arrays(tmp_path / name / "model.safetensors")[0] for name in ("tame", "wild")
    )
    assert all(np.array_equal(tame[name], wild[name]) for name in tame)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"training": {"loss": "binary_cross_entropy"}}, "network: output: 'linear' with the loss"),
        ({"network": {"output": "sigmoid"}}, r"y0 in line 2 is .*; expected a number from 0 to 1"),
        ({"scale_inputs": "log"}, "scale_inputs: 'log'; expected one of standard, range, none"),
        (
            {"network": {"output": "sigmoid"}, "scale_targets": "range"},
            "scale_targets: 'range'; expected auto or none",
        ),
    ],
)
def test_complaint(changes, complaint):
    with pytest.raises((ConfigError, InputError), match=complaint):
        make_task(**changes)


def test_a_table_s_network_is_no_image_s_and_the_other_way_round(tmp_path):
    from test_fit import make_task as image_task
    from test_fit import train as train_image

    from neuralfield.tasks.image.image_model import Model

    train(make_task(), tmp_path / "table")
    with pytest.raises(CheckpointError, match="not a model"):
        Model.load(tmp_path / "table/model.safetensors")
    train_image(image_task(steps=2, snapshots=2), tmp_path)
    with pytest.raises(CheckpointError, match="not a network of a table"):
        TableModel.load(tmp_path / "model.safetensors")


def test_numbers_are_measured_where_they_belong(tmp_path):
    table = SHIPPED / "noisy_curve.csv"
    samples = read_samples(table, ["time_s"], ["recorded"])
    training = {"steps": 300, "batch_samples": 16, "snapshots": 5, "random_seed": 0}
    task = make_task(samples, training=training, held_out_share=0.2)
    train(task, tmp_path)
    settings = {
        **{"inputs": ["time_s"], "targets": ["recorded"], "network": {"widths": [8]}},
        **{"scale_inputs": "standard", "scale_targets": "auto", "held_out_share": 0.2},
    }
    evaluate_table.main(
        table,
        tmp_path / "model.safetensors",
        tmp_path / "training.json",
        tmp_path / "metrics.json",
        tmp_path / "predictions.csv",
        settings=settings,
        training=training,
        truth=["pressure"],
    )
    found = json.loads((tmp_path / "metrics.json").read_text())
    rows = pd.read_csv(tmp_path / "predictions.csv")
    assert (found["rows"], found["held_out_rows"], rows.held_out.sum()) == (300, 60, 60)
    squared = (rows.predicted_recorded - rows.recorded) ** 2
    for key, kept in (("rmse", rows.held_out == 0), ("held_out_rmse", rows.held_out == 1)):
        assert found[key] == pytest.approx(np.sqrt(squared[kept].mean()), rel=1e-4)
    pressure = pd.read_csv(table).pressure
    off = np.sqrt(((rows.predicted_recorded - pressure) ** 2).mean())
    assert found["rmse_to_truth"] == pytest.approx(off, rel=1e-4)
    assert found["accuracy"] is None and found["coefficients"] is None
    assert found["parameters"] == 8 + 8 + 8 + 1
    shorter = tmp_path / "shorter.csv"
    shorter.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    model = tmp_path / "model.safetensors"
    with pytest.raises(
        CheckpointError, match=r"table with another digest.* expected .*shorter\.csv"
    ):
        evaluate_table.read_own(shorter, model, settings, training)
    with pytest.raises(CheckpointError, match=r"another training \(random_seed 0, not 1[,)]"):
        evaluate_table.read_own(table, model, settings, training | {"random_seed": 1})
    with pytest.raises(CheckpointError, match=r"held_out_share 0.2, not 0.0"):
        evaluate_table.read_own(table, model, settings | {"held_out_share": 0.0}, training)


def test_bits_that_are_remembered():
    bits = evaluate_table.remembered_bits
    assert bits(1.0, 1000) == 1000
    assert bits(0.5, 1000) == bits(0.3, 1000) == 0
    assert bits(0.89, 1000) == pytest.approx(500, abs=1)
