"""The same classifier in PyTorch, written as an experienced user would write it."""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from neuralfield.nn.layers import Conv2d, Linear
from neuralfield.system.device import Device
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from torch_peers.fields import Peer, captured, torch_device


class TorchClassifier(torch.nn.Module):
    """The network of a task with its initial weights; images have the order (n, c, h, w)."""

    def __init__(self, task: ClassifierTask, device: torch.device) -> None:
        super().__init__()
        settings: ConvolutionalClassifier = task.network
        self.pool = settings.pool
        self.convolutions, self.linears = torch.nn.ModuleList(), torch.nn.ModuleList()
        sides = settings.flat_values(task.labelled.shape)
        self._last_channels = settings.channels[-1]
        self._last_places = sides // self._last_channels
        for layer in task.fresh_network().layers:
            weight = torch.from_numpy(layer.weight.data).float()
            if isinstance(layer, Conv2d):
                kernel, _, channels_in, channels_out = layer.weight.shape
                own = torch.nn.Conv2d(channels_in, channels_out, kernel, padding=settings.padding)
                weight = weight.permute(3, 2, 0, 1)
                self.convolutions.append(own)
            else:
                own = torch.nn.Linear(*layer.weight.shape)
                if not self.linears:
                    weight = self._channels_first(weight)
                weight = weight.T
                self.linears.append(own)
            assert isinstance(layer, Conv2d | Linear) and layer.bias is not None
            with torch.no_grad():
                own.weight.copy_(weight)
                own.bias.copy_(torch.from_numpy(layer.bias.data))  # type: ignore[union-attr]
        self.to(device, memory_format=torch.channels_last)

    def _channels_first(self, rows: torch.Tensor) -> torch.Tensor:
        """Reorder rows for values from (places, channels) to (channels, places)."""
        split = rows.reshape(self._last_places, self._last_channels, -1)
        return split.transpose(0, 1).reshape(rows.shape)

    def _channels_last(self, rows: torch.Tensor) -> torch.Tensor:
        split = rows.reshape(self._last_channels, self._last_places, -1)
        return split.transpose(0, 1).reshape(rows.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, shape (n, classes)."""
        for convolution in self.convolutions:
            x = functional.relu(functional.max_pool2d(convolution(x), self.pool))
        x = x.flatten(1)
        *hidden, last = self.linears
        for linear in hidden:
            x = functional.relu(linear(x))
        return last(x)

    def gradients(self) -> dict[str, np.ndarray]:
        """Return the gradient of each parameter, with this package's names and shapes."""
        found = {}
        for number, own in enumerate([*self.convolutions, *self.linears]):
            weight = own.weight.grad.detach()
            if own in self.convolutions:
                weight = weight.permute(2, 3, 1, 0)
            else:
                weight = weight.T
                if own is self.linears[0]:
                    weight = self._channels_last(weight)
            found[f"layers.{number}.weight"] = weight.cpu().numpy()
            found[f"layers.{number}.bias"] = own.bias.grad.cpu().numpy()
        return found


class ClassifierSteps:
    """Steps of a task; a call takes the given number of steps. Images stay on the device as bytes.

    Parameters
    ----------
    task : ClassifierTask
        A task with Adam, and without dropout.
    peer : Peer
        A peer that does not use 16 bits.
    """

    def __init__(self, task: ClassifierTask, device: Device, peer: Peer) -> None:
        torch._dynamo.reset()
        settings, labelled, scaling = task.training, task.labelled, task.model.scaling
        self.device, self.peer = torch_device(device), peer
        self.network = TorchClassifier(task, self.device)
        self._images = torch.from_numpy(labelled.images).to(self.device)[:, None]
        self._labels = torch.from_numpy(labelled.labels).to(self.device)
        self._centre, self._spread = float(scaling.centre[0]), float(scaling.spread[0])
        self._samples = torch.zeros(settings.batch_samples, dtype=torch.int64, device=self.device)
        self._order, self._used = self._samples[:0], 0
        self.optimizer = torch.optim.Adam(
            self.network.parameters(),
            settings.learning_rate,
            (settings.beta1, settings.beta2),
            fused=True,
            capturable=device.kind == "gpu",
        )
        self._loss: Callable[[], torch.Tensor] = self._forward
        if peer.compiled:
            self._loss = torch.compile(self._forward, dynamic=False)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, steps: int) -> None:
        torch.set_float32_matmul_precision(self.peer.matmul_precision)
        torch.backends.cudnn.allow_tf32 = self.peer.matmul_precision != "highest"
        if self.peer.compiled and self._graph is None and self.device.type == "cuda":
            # the graph reads its samples from `self._samples`, which each step overwrites
            self._graph = captured(self._step, self.optimizer)
        step = self._graph.replay if self._graph else self._step
        for _ in range(steps):
            self._samples.copy_(self._next_samples())
            step()

    def first_gradient(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        """Return the gradient of some samples at the current weights, by parameter."""
        torch.set_float32_matmul_precision(self.peer.matmul_precision)
        torch.backends.cudnn.allow_tf32 = self.peer.matmul_precision != "highest"
        self._samples.copy_(torch.from_numpy(samples))
        self._backward()
        return self.network.gradients()

    def _next_samples(self) -> torch.Tensor:
        """Return the next samples of an epoch, in which each sample occurs once in random order."""
        batch = len(self._samples)
        if self._used + batch > len(self._order):
            order = torch.randperm(len(self._labels), device=self.device)
            self._order = torch.cat([self._order[self._used :], order])
            self._used = 0
        self._used += batch
        return self._order[self._used - batch : self._used]

    def _forward(self) -> torch.Tensor:
        shown = (self._images[self._samples].float() - self._centre) / self._spread
        shown = shown.contiguous(memory_format=torch.channels_last)
        return functional.cross_entropy(self.network(shown), self._labels[self._samples])

    def _backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self._loss().backward()

    def _step(self) -> None:
        self._backward()
        self.optimizer.step()
