"""Export of networks as PyTorch modules."""

from collections.abc import Sequence

import torch

from neuralfield.fields import CoordinateNetwork


class TorchField(torch.nn.Module):
    """A network from positions (n, 2) to values (n, channels).

    Parameters and buffers have the same names and shapes as in the file: the shape of weights is
    (inputs, outputs).
    """

    def __init__(self, network: CoordinateNetwork) -> None:
        super().__init__()
        self.network = network
        for name, array in network.arrays.items():
            *folders, last = name.split(".")
            module: torch.nn.Module = self
            for folder in folders:
                if folder not in dict(module.named_children()):
                    module.add_module(folder, torch.nn.Module())
                module = module.get_submodule(folder)
            tensor = torch.from_numpy(array.copy())
            if name in network.parameters:
                module.register_parameter(last, torch.nn.Parameter(tensor))
            else:
                module.register_buffer(last, tensor)

    def forward(self, xy: torch.Tensor) -> torch.Tensor:
        """Compute the values at positions, in the precision of the parameters."""
        return self.network.formula(xy, _TorchArithmetic(self))


class _TorchArithmetic:
    """Implementation of `neuralfield.nn.arithmetic.Arithmetic` for PyTorch tensors."""

    def __init__(self, module: TorchField) -> None:
        self._arrays = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    sin, cos, exp = staticmethod(torch.sin), staticmethod(torch.cos), staticmethod(torch.exp)
    tanh, relu = staticmethod(torch.tanh), staticmethod(torch.relu)
    absolute = staticmethod(torch.abs)

    def parameter(self, name: str) -> torch.Tensor:
        return self._arrays[name]

    def cell(self, x: torch.Tensor, first: list[int], last: list[int]) -> torch.Tensor:
        bounds = [torch.tensor(bound, dtype=x.dtype, device=x.device) for bound in (first, last)]
        return torch.clamp(torch.floor(x), *bounds).detach()

    def whole(self, x: torch.Tensor) -> torch.Tensor:
        return x.long()

    def rows(self, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return table[index[:, 0]]

    def columns(self, x: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        return x[:, start:stop]

    def concatenate(self, parts: Sequence[torch.Tensor], axis: int = 1) -> torch.Tensor:
        return torch.cat(list(parts), dim=axis)
