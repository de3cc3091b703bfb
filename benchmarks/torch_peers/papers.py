"""Fields as in their papers, in PyTorch, with the initial weights that their authors use.

Apart from the positions of pixels and the schedule, the programs share no code with this package,
so that their fits are references for this package's fits.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from neuralfield.fields import CoordinateNetwork
from neuralfield.images.coordinates import pixel_centres
from neuralfield.images.metrics import psnr_db
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_task import ImageTask
from torch_peers.fields import torch_device
from torch_peers.hashgrid import hashgrid


class Activated(nn.Module):
    """A layer followed by an activation function."""

    def __init__(self, layer: nn.Module, activation: Callable[[torch.Tensor], torch.Tensor]):
        super().__init__()
        self.layer, self.activation = layer, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.layer(x))


class RandomFrequencies(nn.Module):
    """[sin 2 pi B p, cos 2 pi B p], with B from N(0, scale ** 2) (Tancik et al. 2020)."""

    def __init__(self, frequencies: int, scale: float):
        super().__init__()
        self.register_buffer("frequencies", scale * torch.randn(2, frequencies))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # no matrix product: TF32 would round the phase
        rows = self.frequencies
        phase = 2 * torch.pi * (x[:, :1] * rows[0] + x[:, 1:] * rows[1])
        return torch.cat([torch.sin(phase), torch.cos(phase)], dim=1)


class FourierAndChebyshev(RandomFrequencies):
    """Random Fourier features, and Chebyshev polynomials T_0 to T_degree of x and of y (CAFE+)."""

    def __init__(self, frequencies: int, scale: float, degree: int):
        super().__init__(frequencies, scale)
        self.degree = degree

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arccos(x.double().clamp(-1, 1))
        polynomials = [torch.cos(n * angle).float() for n in range(self.degree + 1)]
        return torch.cat([super().forward(x), *polynomials], dim=1)


class ProductOfMaps(nn.Module):
    """(W_1 f + b_1) * ... * (W_N f + b_N) (CAFE)."""

    def __init__(self, fan_in: int, fan_out: int, factors: int):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(fan_in, fan_out) for _ in range(factors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = self.maps[0](x)
        for factor in self.maps[1:]:
            product = product * factor(x)
        return product


class RealPart(nn.Module):
    """The real part of complex values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.real


def siren(
    channels: int,
    hidden_layers: int,
    width: int,
    first_omega_0: float = 30.0,
    omega_0: float = 30.0,
    weight_scale: float = 1.0,
) -> nn.Module:
    """Build a network of Sitzmann et al. 2020: sin(omega_0 (W x + b)).

    `weight_scale` is as in the settings of this package.
    """
    linears = _sine_linears(channels, hidden_layers, width, omega_0)
    with torch.no_grad():
        for linear in linears[:-1]:
            linear.weight *= weight_scale
    omegas = [first_omega_0] + [omega_0] * hidden_layers
    return _with_sines(linears, omegas, lambda z, omega: torch.sin(omega * z))


def finer(
    channels: int,
    hidden_layers: int,
    width: int,
    first_omega_0: float = 30.0,
    omega_0: float = 30.0,
    first_bias: float = 2.0,
    exact_derivative: bool = False,
) -> nn.Module:
    """Build a network of Liu et al. 2024: sin(omega_0 a z), a = |z| + 1.

    By default the authors treat `a` as a constant in the derivative; they have an option for the
    exact derivative.
    """
    linears = _sine_linears(channels, hidden_layers, width, omega_0)
    nn.init.uniform_(linears[0].bias, -first_bias, first_bias)
    omegas = [first_omega_0] + [omega_0] * hidden_layers

    def variable_sine(z: torch.Tensor, omega: float) -> torch.Tensor:
        factor = z.abs() + 1
        return torch.sin(omega * (factor if exact_derivative else factor.detach()) * z)

    return _with_sines(linears, omegas, variable_sine)


def wire(
    channels: int,
    hidden_layers: int,
    width: int,
    omega_0: float = 20.0,
    scale: float = 20.0,
    sirens_weights: bool = False,
) -> nn.Module:
    """Build a network of Saragadam et al. 2023: exp(i omega_0 z - |scale z| ** 2).

    The initial weights are PyTorch's or, as in this package, those of SIREN.
    """

    def wavelet(z: torch.Tensor) -> torch.Tensor:
        return torch.exp(1j * omega_0 * z - (scale * z).abs().square())

    layers = [Activated(nn.Linear(2, width), wavelet)]
    for _ in range(hidden_layers):
        layers.append(Activated(nn.Linear(width, width, dtype=torch.cfloat), wavelet))
    last = nn.Linear(width, channels, dtype=torch.cfloat)
    if sirens_weights:
        first, *others = [*(layer.layer for layer in layers), last]
        nn.init.uniform_(first.weight, -1 / 2, 1 / 2)
        bound = (6 / width) ** 0.5 / omega_0
        for linear in others:
            nn.init.uniform_(torch.view_as_real(linear.weight), -bound, bound)
    return nn.Sequential(*layers, last, RealPart())


def gauss(channels: int, hidden_layers: int, width: int, scale: float = 10.0) -> nn.Module:
    """Build a network of Ramasinghe & Lucey 2022, exp(-(scale z) ** 2), with PyTorch's weights."""
    sizes = [2] + [width] * (1 + hidden_layers)
    bells = [
        Activated(nn.Linear(a, b), lambda z: torch.exp(-((scale * z) ** 2)))
        for a, b in pairwise(sizes)
    ]
    return nn.Sequential(*bells, nn.Linear(width, channels))


def fourier(
    channels: int, hidden_layers: int, width: int, frequencies: int = 128, scale: float = 10.0
) -> nn.Module:
    """Build a network of Tancik et al. 2020: random Fourier features, then relu layers.

    The initial weights are PyTorch's.
    """
    sizes = [2 * frequencies] + [width] * hidden_layers
    layers = [Activated(nn.Linear(a, b), torch.relu) for a, b in pairwise(sizes)]
    features = RandomFrequencies(frequencies, scale)
    return nn.Sequential(features, *layers, nn.Linear(width, channels))


def cafe(
    channels: int,
    hidden_layers: int,
    width: int,
    frequencies: int = 48,
    scale: float = 10.0,
    chebyshev_degree: int = 15,
    factors: int = 3,
) -> nn.Module:
    """Build a network of Ke et al. 2026 (CAFE+) with PyTorch's weights; T_0 is included."""
    features = 2 * frequencies + 2 * (chebyshev_degree + 1)
    return nn.Sequential(
        FourierAndChebyshev(frequencies, scale, chebyshev_degree),
        ProductOfMaps(features, width, factors),
        *[Activated(nn.Linear(width, width), torch.relu) for _ in range(hidden_layers)],
        nn.Linear(width, channels),
    )


PAPERS: dict[str, Callable[..., nn.Module]] = {
    "siren": siren,
    "finer": finer,
    "wire": wire,
    "gauss": gauss,
    "fourier": fourier,
    "hashgrid": hashgrid,
    "cafe": cafe,
}
"""Functions that build networks, by this package's types of fields. Their parameters are the number
of channels, and those of this package's settings that the networks have."""


def _sine_linears(channels: int, hidden_layers: int, width: int, omega_0: float) -> list[nn.Linear]:
    """Return layers with SIREN's initial weights and PyTorch's initial biases."""
    sizes = [2] + [width] * (1 + hidden_layers) + [channels]
    linears = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    nn.init.uniform_(linears[0].weight, -1 / 2, 1 / 2)
    for linear in linears[1:]:
        bound = (6 / linear.in_features) ** 0.5 / omega_0
        nn.init.uniform_(linear.weight, -bound, bound)
    return linears


def _with_sines(
    linears: list[nn.Linear],
    omegas: list[float],
    sine: Callable[..., torch.Tensor],
) -> nn.Module:
    """Return a network of the layers, with a sine of its own frequency after each but the last."""
    sines = [
        Activated(linear, partial(sine, omega=omega))
        for linear, omega in zip(linears[:-1], omegas, strict=True)
    ]
    return nn.Sequential(*sines, linears[-1])


def train_as_in_paper(
    task: ImageTask, field: dict[str, Any], device: Device, own: dict[str, Any]
) -> float:
    """Fit a field of `PAPERS` to all of a task's pixels in every step, with TF32 on a GPU.

    Parameters
    ----------
    task : ImageTask
        The image and the training settings: ``adam`` or ``muon``, with mean squared error;
        ``keep_best`` compares the networks of all steps.
    field : dict
        Type and settings.
    own : dict
        Settings of the program alone; with `same_start` it has this package's initial values.

    Returns
    -------
    float
        PSNR on the training pixels, in dB.
    """
    settings, where = task.training, torch_device(device)
    torch.manual_seed(settings.random_seed)
    torch.set_float32_matmul_precision("high")
    settings_of_both = {name: value for name, value in field.items() if name != "type"}
    own_settings = {name: value for name, value in own.items() if name != "same_start"}
    network = PAPERS[field["type"]](task.shape.channels, **settings_of_both, **own_settings)
    if own.get("same_start"):
        _start_as(network, task.fresh_network())
    network = network.to(where)
    centres = torch.from_numpy(pixel_centres(np, task.shape.width, task.shape.height))
    points = centres.float().to(where)
    target = torch.from_numpy(task.values.reshape(-1, task.shape.channels)).to(where)
    optimizers = _optimizers(network, task)
    schedule = Schedule(
        settings.schedule,
        settings.learning_rate,
        settings.minimum_learning_rate,
        settings.steps,
    )
    torch.set_flush_denormal(True)  # processors are slow with the tails of Gaussians
    lowest, best = float("inf"), None
    for step in range(settings.steps):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = schedule(step)
            optimizer.zero_grad()
        values = 0.5 * network(points) + 0.5
        loss = nn.functional.mse_loss(values, target)
        if settings.keep_best and loss.item() < lowest:
            lowest, best = loss.item(), deepcopy(network.state_dict())
        loss.backward()
        if settings.gradient_clip_norm is not None:
            nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_clip_norm)
        for optimizer in optimizers:
            optimizer.step()
    torch.set_flush_denormal(False)
    if best is not None:
        network.load_state_dict(best)
    with torch.no_grad():
        rendered = (0.5 * network(points) + 0.5).clamp(0, 1).cpu().numpy()
    return psnr_db(rendered.reshape(task.values.shape), task.values)


def _start_as(network: nn.Module, ours: CoordinateNetwork) -> None:
    """Copy the initial values of this package's network: of real layers, and of frequencies."""
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    with torch.no_grad():
        for index, linear in enumerate(linears):
            linear.weight.copy_(torch.from_numpy(ours.arrays[f"layers.{index}.weight"].T.copy()))
            linear.bias.copy_(torch.from_numpy(ours.arrays[f"layers.{index}.bias"].copy()))
        for features in network.modules():
            if isinstance(features, RandomFrequencies):
                features.frequencies.copy_(torch.from_numpy(ours.arrays["encoding.frequencies"]))


def _optimizers(network: nn.Module, task: ImageTask) -> list[torch.optim.Optimizer]:
    settings, parameters = task.training, list(network.parameters())
    adam = partial(torch.optim.Adam, lr=1.0, betas=(settings.beta1, settings.beta2))
    if settings.optimizer == "adam":
        return [adam(parameters)]
    hidden = [p for p in parameters if p.ndim == 2][1:-1]
    rest = [p for p in parameters if all(p is not other for other in hidden)]
    muon = torch.optim.Muon(hidden, 1.0, weight_decay=0, adjust_lr_fn="match_rms_adamw")
    return [muon, adam(rest)]
