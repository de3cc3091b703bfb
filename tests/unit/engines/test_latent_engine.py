"""The latents' kernels compared with the tape in float64; results do not depend on threads."""

import numpy as np
import pytest
from make_latent_objective import STEPS, make_latent_objective

from neuralfield.engines.cpu.latent_engine import LatentEngine
from neuralfield.engines.tape import TapeEngine
from neuralfield.nn.tensor import gradients
from neuralfield.system.device import select_device

CPU = select_device("cpu")


@pytest.mark.parametrize("step", [3, STEPS - 1])
@pytest.mark.parametrize("shape", [(37, 53), (1, 1), (2, 3), (5, 130), (70, 5)])
def test_losses_and_gradients_are_those_of_the_tape(shape, step):
    reference, fast = (make_latent_objective(dtype, *shape) for dtype in ("float64", "float32"))
    loss, error = reference.evaluate(np.arange(0), step, 1)
    engine = LatentEngine(fast, CPU, threads=1)
    engine._work[0][:] = np.nan  # as earlier work may leave it
    engine.run(step, 1)
    engine.close()
    np.testing.assert_allclose(engine.totals, [loss.data, error], rtol=1e-5)
    names, tensors = zip(*reference.network.parameters.items(), strict=True)
    for name, gradient in zip(names, gradients(loss, tensors), strict=True):
        found = fast.optimizer.state[f"moment1.{name}"] * 10  # which is 1 - beta1 of the gradient
        limit = 1e-4 * abs(gradient).max(initial=1e-12)
        np.testing.assert_allclose(found, gradient, atol=limit, err_msg=name)


def test_a_run_moves_all_parameters_as_the_tape_does():
    found = []
    for make in (LatentEngine, TapeEngine):
        objective = make_latent_objective("float32", 20, 24, "grey")
        engine = make(objective, CPU, 1)
        engine.run(STEPS // 2, 4)
        engine.close()
        found.append(objective.network.arrays)
    for name, array in found[0].items():
        np.testing.assert_allclose(array, found[1][name], atol=2e-3, err_msg=name)


def test_the_number_of_threads_does_not_change_a_bit():
    arrays = []
    for threads in (1, 2):
        objective = make_latent_objective("float32", 50, 90)
        engine = LatentEngine(objective, CPU, threads)
        engine.run(0, 5)
        engine.close()
        arrays.append(objective.network.arrays)
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name])
