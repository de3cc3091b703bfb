r"""Train the weights with which the networks of coded images start, on photographs.

    python benchmarks/initial_latent_weights.py kodim03.png kodim05.png kodim08.png kodim19.png \
        kodim20.png kodim24.png --output weights.json

Every photograph takes part twice: 256 x 256 pixels of its middle, and the whole reduced to 256
pixels, with different weights of bits. Latents belong to one of them; the networks train for some
steps on each, and go on from the mean of their weights, which is what remains at the end.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from measuring.command_line import new_parser, start
from PIL import Image

from neuralfield.engines import make_latent_engine
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import Device, select_device, to_host
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining
from neuralfield.tasks.bits.latent_network import USUAL_HIDDEN, LatentNetwork

SIDE_PX = 256
LAMBDAS = (1e-3, 3e-4, 4e-3, 1e-3, 2e-3, 1e-3)
SOFT_SHARE = 1.06
"""Length of the schedule, so that the training ends before latents are only rounded."""


def main(given: argparse.Namespace) -> None:
    """Write the weights."""
    steps = round(given.rounds * given.steps * SOFT_SHARE)
    device = select_device(given.device)
    objectives = []
    for number, path in enumerate(given.images):
        for place, values in enumerate(_parts(path)):
            weight = LAMBDAS[(number + 2 * place) % len(LAMBDAS)]
            objectives.append(_objective(values, weight, steps, device))
    wanted = "cuda" if device.kind == "gpu" else "cpu"
    engines = [make_latent_engine(wanted, "auto", o, device, 1) for o in objectives]
    networks = [
        {n: t.data for n, t in objective.network.parameters.items() if "latents" not in n}
        for objective in objectives
    ]
    for round_number in range(given.rounds):
        for engine in engines:
            engine.run(round_number * given.steps, given.steps)
        for name in networks[0]:
            mean = device.xp.stack([network[name] for network in networks]).mean(axis=0)
            for network in networks:
                is_output = name == "output"  # whose bias is the colour of an image
                network[name][:, : -1 if is_output else None] = mean[:, : -1 if is_output else None]
        steps_so_far = (round_number + 1) * given.steps
        losses = [float(engine.totals[0]) / steps_so_far for engine in engines]
        print(f"round {round_number + 1}: mean loss so far {1e3 * np.mean(losses):.4f}e-3")
    lines = []
    for name, array in networks[0].items():  # the shortest text of each number in 16 bits
        rows = [[float(str(value)) for value in row] for row in to_host(array).astype(np.float16)]
        lines.append(f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "]")
    given.output.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _parts(path: Path) -> list[np.ndarray]:
    image = Image.open(path).convert("RGB")
    left, top = (image.width - SIDE_PX) // 2, (image.height - SIDE_PX) // 2
    middle = image.crop((left, top, left + SIDE_PX, top + SIDE_PX))
    scale = SIDE_PX / max(image.size)
    size = round(image.width * scale), round(image.height * scale)
    reduced = image.resize(size, Image.Resampling.LANCZOS)
    return [np.asarray(part, np.float32) / 255 for part in (middle, reduced)]


def _objective(values: np.ndarray, bit_weight: float, steps: int, device: Device) -> BitsObjective:
    training = BitsTraining(steps=steps, bit_weight=bit_weight, minimum_learning_rate=3e-4)
    task = BitsTask(values, "rgb", USUAL_HIDDEN, training)
    network = task.fresh_network()
    _sample_weights(network)
    network.parameters["output"].data[:, -1] = values.mean(axis=(0, 1))
    network.to(device, "float32")
    return task.objective(
        network,
        optimizer=make_optimizer("adam", network.parameters, beta2=training.beta2),
        schedule=Schedule("cosine", training.learning_rate, 3e-4, steps),
        loss=training.loss,
        huber_delta=training.huber_delta,
        device=device,
        dtype="float32",
    )


def _sample_weights(network: LatentNetwork) -> None:
    """Set random initial weights, the same in all networks, with cubic B-splines as filters."""
    normal, inputs = np.random.default_rng(0).normal, network.parameters["rate.0"].shape[0]
    matrices = {name: tensor.data for name, tensor in network.parameters.items()}
    grids, hidden = network.grids, network.hidden
    for name, gain in (("rate.0", 0.5), ("rate.1", 0.5), ("rate.2", 0.1)):
        matrix = matrices[name]
        matrix[:] = 0
        matrix[:, :-1] = normal(0, gain / inputs**0.5, (len(matrix), inputs))
    matrices["rate.2"][1, -1] = -2.0  # logarithm of the first scale
    matrices["filters"][:] = [1 / 384, 121 / 384, 235 / 384, 27 / 384]
    matrices["hidden"][:] = matrices["output"][:] = 0
    matrices["hidden"][:, :grids] = normal(0, grids**-0.5, (hidden, grids))
    output = matrices["output"]
    output[:, :hidden] = normal(0, 0.5 / hidden**0.5, (len(output), hidden))
    output[:, hidden : hidden + grids] = normal(0, 0.3 / grids**0.5, (len(output), grids))


if __name__ == "__main__":
    parser = new_parser(__doc__)
    parser.add_argument("images", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=80, help="means of weights (default: 80)")
    parser.add_argument("--steps", type=int, default=20, help="steps of a round (default: 20)")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--output", type=Path, required=True)
    start(main, parser)
