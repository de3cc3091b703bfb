"""The same steps and renders in PyTorch, written as an experienced user would write them."""

import gc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from neuralfield.fields import CoordinateNetwork, ImageShape, build_field
from neuralfield.fields.cafe import FourierChebyshev, Product
from neuralfield.fields.coordinate_network import CornerBias, FourierFeatures, Identity
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.fields.wire import ComplexLinear
from neuralfield.images.coordinates import axis_centres, extent, pixel_centres
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_task import ImageTask

_ACTIVATIONS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "sine": lambda z, frequency: torch.sin(frequency * z),
    "tanh": lambda z, _: torch.tanh(z),
    "relu": lambda z, _: torch.relu(z),
    "sigmoid": lambda z, _: torch.sigmoid(z),
    "variable sine": lambda z, frequency: torch.sin(frequency * (z.abs() + 1) * z),
    "gaussian": lambda z, frequency: torch.exp(-((frequency * z) ** 2)),
}
Encoded = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""The constant part of the inputs: the inputs themselves, or rows of a hash grid's table, shape
(n, levels, 4), and their weights."""

_WARM_UP_STEPS = 3
_LARGEST_HALF_DERIVATIVE = 2**-8
"""The scaled derivative of the loss with respect to one value. With about this value, sums over all
points do not overflow 16-bit numbers, and gradients of earlier layers do not underflow."""


@dataclass(frozen=True)
class Peer:
    """A way of running PyTorch.

    Attributes
    ----------
    compiled : bool
        Whether to use torch.compile and, on a GPU, to capture the whole step in a CUDA graph.
    matmul_precision : {"highest", "high"}
        Whether float32 products are computed in float32, or may use TF32.
    half : bool
        Whether to use autocast to float16, with a static scale of the loss.
    gradient_limit : float
        Maximum relative error of a correct gradient.
    """

    name: str
    compiled: bool
    matmul_precision: str
    half: bool
    gradient_limit: float


EAGER = Peer("torch eager float32", False, "highest", False, 1e-3)
COMPILED_TF32 = Peer("torch compiled TF32", True, "high", False, 1e-1)
COMPILED_HALF = Peer("torch compiled fp16 autocast", True, "high", True, float("inf"))
PEERS = (EAGER, COMPILED_TF32, COMPILED_HALF)

COMPILED = Peer("torch compiled float32", True, "highest", False, 1e-3)
CPU_PEERS = (EAGER, COMPILED)


class TorchNetwork(torch.nn.Module):
    """A coordinate network with the weights of one of this package's networks."""

    def __init__(self, network: CoordinateNetwork, device: torch.device) -> None:
        super().__init__()
        self.frequencies: torch.Tensor
        self.encoding = network.encoding
        self.activations = network.activations
        self.output = network.output
        self.linears = torch.nn.ModuleList()
        for layer in network.layers:
            linear = torch.nn.Linear(layer.fan_in, layer.fan_out, bias=layer.bias is not None)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(layer.weight.data.T))
                if layer.bias is not None:
                    linear.bias.copy_(torch.from_numpy(layer.bias.data))
            self.linears.append(linear)
        if isinstance(self.encoding, FourierFeatures | FourierChebyshev):
            self.register_buffer("frequencies", torch.from_numpy(self.encoding.frequencies).float())
        if isinstance(self.encoding, HashEncoding):
            table = torch.from_numpy(self.encoding.table.data).float()
            self.table = torch.nn.Parameter(table)
        self.to(device)

    def encode(self, coordinates: torch.Tensor) -> Encoded:
        """Encode coordinates, shape (n, 2), as inputs of the first layer; always in float32."""
        x, y = coordinates[:, :1], coordinates[:, 1:]
        if isinstance(self.encoding, Identity):
            return coordinates
        if isinstance(self.encoding, CornerBias):
            width, height = self.encoding.width, self.encoding.height
            longer = max(width, height)
            u = (x * longer + (width - 1)) / (2 * max(width - 1, 1))
            v = (y * longer + (height - 1)) / (2 * max(height - 1, 1))
            return torch.cat([torch.ones_like(u), u, v], dim=1)
        if isinstance(self.encoding, HashEncoding):
            rows, weights = self.encoding.corners(coordinates.cpu().numpy())
            return torch.from_numpy(rows).to(x.device), torch.from_numpy(weights).to(x.device)
        # no matrix product: TF32 and 16 bits would round the phase
        phase = 2 * torch.pi * (x * self.frequencies[0] + y * self.frequencies[1])
        features = [torch.sin(phase), torch.cos(phase)]
        if isinstance(self.encoding, FourierChebyshev):
            before, polynomial = coordinates, torch.ones_like(coordinates)
            for _ in range(self.encoding.degree + 1):
                features.append(polynomial)
                before, polynomial = polynomial, 2 * coordinates * polynomial - before
        return torch.cat(features, dim=1)

    def forward(self, encoded: Encoded) -> torch.Tensor:
        """Return the values of the last layer before the output function, in float32."""
        if isinstance(encoded, torch.Tensor):
            x = encoded
        else:
            rows, weights = encoded
            x = (self.table[rows] * weights[..., None]).sum(dim=2).flatten(1)
        *hidden, last = self.linears
        for linear, activation in zip(hidden, self.activations, strict=True):
            z = linear(x)
            if isinstance(activation, Product):
                x = torch.stack(z.chunk(activation.factors, dim=1)).prod(dim=0)
            else:
                x = _ACTIVATIONS[activation.name](z, activation.frequency)
        return last(x).float()

    def values(self, z: torch.Tensor) -> torch.Tensor:
        """Apply the output function."""
        if self.output.name == "sigmoid":
            return torch.sigmoid(self.output.steepness * z)
        return 0.5 * z + 0.5

    def loss(self, z: torch.Tensor, target: torch.Tensor, name: str) -> torch.Tensor:
        """Return the mean loss; cross-entropy is computed from logits, as PyTorch recommends."""
        if name == "binary_cross_entropy":
            return functional.binary_cross_entropy_with_logits(self.output.steepness * z, target)
        return functional.mse_loss(self.values(z), target)

    def named(self, of: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, np.ndarray]:
        """Return `of` applied to each parameter, with this package's names and shapes."""
        arrays = {}
        for name, parameter in self.linears.named_parameters():
            array = of(parameter).detach().cpu().numpy()
            arrays[f"layers.{name}"] = array.T if array.ndim == 2 else array
        if isinstance(self.encoding, HashEncoding):
            arrays["encoding.table"] = of(self.table).detach().cpu().numpy()
        return arrays


class FieldSteps:
    """Full-batch steps of a task with point supervision; a call takes the given number of steps.

    Positions are the same in each step, and are therefore encoded once before the first step.
    """

    def __init__(self, task: ImageTask, device: Device, peer: Peer) -> None:
        torch._dynamo.reset()  # otherwise a new network counts as a recompilation of the last one
        settings, shape = task.training, task.shape
        self.device, self.peer, self._loss_name = torch_device(device), peer, settings.loss
        if settings.optimizer == "muon" or settings.supervision == "footprint":
            raise NotImplementedError("peers are timed with adam and sgd, at pixel centres")
        network = build_field(task.field, shape, settings.random_seed)
        if any(isinstance(layer, ComplexLinear) for layer in network.layers):
            raise NotImplementedError("peers are timed with real numbers")
        self.field = TorchNetwork(network, self.device)
        centres = torch.from_numpy(pixel_centres(np, shape.width, shape.height)).float()
        with torch.no_grad():
            self._encoded = self.field.encode(centres.to(self.device))
        self._target = torch.from_numpy(task.values.reshape(-1, shape.channels)).to(self.device)
        self._scale = self._target.numel() * _LARGEST_HALF_DERIVATIVE if peer.half else 1.0
        parameters = list(self.field.parameters())
        if settings.optimizer == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
                parameters,
                settings.learning_rate,
                (settings.beta1, settings.beta2),
                fused=True,
                capturable=device.kind == "gpu",
            )
        else:
            self.optimizer = torch.optim.SGD(parameters, settings.learning_rate, fused=True)
        self._scaled_loss: Callable[[], torch.Tensor] = self._forward
        if peer.compiled:
            self._scaled_loss = torch.compile(self._forward, dynamic=False)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, steps: int) -> None:
        torch.set_float32_matmul_precision(self.peer.matmul_precision)
        if self.peer.compiled and self._graph is None and self.device.type == "cuda":
            self._graph = captured(self._step, self.optimizer)
        step = self._graph.replay if self._graph else self._step
        # the tails of Gaussians are denormal numbers, with which processors are slow
        torch.set_flush_denormal(True)
        for _ in range(steps):
            step()
        torch.set_flush_denormal(False)  # for other systems timed in this thread

    def first_gradient(self) -> dict[str, np.ndarray]:
        """Return the gradient at the current weights, by parameter."""
        torch.set_float32_matmul_precision(self.peer.matmul_precision)
        self._backward()
        return self.field.named(_gradient)

    def _forward(self) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.float16, enabled=self.peer.half):
            z = self.field(self._encoded)
        return self._scale * self.field.loss(z, self._target, self._loss_name)

    def _backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self._scaled_loss().backward()
        if self._scale != 1:
            gradients = [_gradient(parameter) for parameter in self.field.parameters()]
            torch._foreach_mul_(gradients, 1 / self._scale)  # pyright: ignore

    def _step(self) -> None:
        self._backward()
        self.optimizer.step()


class TorchRendering:
    """An image rendered on the device in blocks of rows; a call renders a given number of images.

    Parameters
    ----------
    network : CoordinateNetwork
        The network in float64 on the CPU.
    shape : ImageShape
        The shape of the training image.
    size_px : (int, int)
        Width and height; the height is a multiple of `rows_per_block`.
    """

    def __init__(
        self,
        network: CoordinateNetwork,
        shape: ImageShape,
        size_px: tuple[int, int],
        rows_per_block: int,
        device: Device,
        peer: Peer,
    ) -> None:
        torch._dynamo.reset()
        self.peer, self.device = peer, torch_device(device)
        self.field = TorchNetwork(network, self.device)
        half_sides = extent(shape.width, shape.height)
        columns, rows = (
            torch.from_numpy(axis_centres(np, *axis)).float().to(self.device)
            for axis in zip(size_px, half_sides, strict=True)
        )
        self._columns, self._rows = columns, rows.reshape(-1, rows_per_block)
        self._render = torch.compile(self._block, dynamic=False) if peer.compiled else self._block
        size = (len(self._rows), rows_per_block * len(columns), shape.channels)
        self.image = torch.empty(size, device=self.device)

    def __call__(self, images: int) -> None:
        torch.set_float32_matmul_precision(self.peer.matmul_precision)
        with torch.inference_mode():
            for _ in range(images):
                for block, rows in zip(self.image, self._rows, strict=True):
                    block.copy_(self._render(rows))

    def _block(self, rows: torch.Tensor) -> torch.Tensor:
        shape = (len(rows), len(self._columns))
        x, y = self._columns.expand(shape), rows[:, None].expand(shape)
        encoded = self.field.encode(torch.stack([x, y], dim=-1).reshape(-1, 2))
        with torch.autocast(self.device.type, torch.float16, enabled=self.peer.half):
            z = self.field(encoded)
        return self.field.values(z)


def captured(step: Callable[[], None], optimizer: torch.optim.Optimizer) -> torch.cuda.CUDAGraph:
    """Capture a step as a graph; its gradients are in the graph's memory and overwritten."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def torch_device(device: Device) -> torch.device:
    """Return PyTorch's device for a device of this package.

    Raises
    ------
    RuntimeError
        If the device is a GPU that this PyTorch cannot use.
    """
    if device.kind == "gpu" and not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} cannot use the GPU")
    return torch.device("cuda" if device.kind == "gpu" else "cpu")


def use_cores(threads: int) -> None:
    """Set the number of PyTorch's threads on the CPU."""
    torch.set_num_threads(threads)


def release_memory() -> None:
    """Release freed GPU memory, for other libraries."""
    torch._dynamo.reset()  # a compiled method and its object refer to each other
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
