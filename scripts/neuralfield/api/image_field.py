"""Images as functions of position, to evaluate, render, differentiate, save and export."""

import os
import warnings
from typing import TYPE_CHECKING

from neuralfield.api.arguments import require_output
from neuralfield.api.errors import built_in_kinds, require_package
from neuralfield.api.evaluated_field import EvaluatedField
from neuralfield.fields import CoordinateNetwork
from neuralfield.system.device import HOST
from neuralfield.system.files import write_atomically

if TYPE_CHECKING:
    import torch


class ImageField(EvaluatedField):
    """An image as a function of position, returned by `neuralfield.fit` and `neuralfield.load`.

    Positions are (x, y), with x to the right, y down and (0, 0) at the centre of the image. The
    longer side of the image spans [-1, 1]; the shorter side spans [-s, s], where s is the ratio of
    the shorter to the longer side.

    Parameters
    ----------
    model : neuralfield.tasks.image.image_model.Model
        The network with its settings.
    device : {"auto", "cpu", "gpu"}
        Device that computes renders.
    history : dict of str to ndarray, optional
    image : ndarray of float32, shape (height, width, channels), optional
        The training image, for `psnr` and `to_html`.
    checkpoints : Path, optional
        The folder of the training's snapshots, for `to_html`.
    measured_db : float, optional
        Value of `psnr` if no image is given.

    Attributes
    ----------
    model, device, history, image, checkpoints
        As above. `history` has the columns step, seconds, loss, psnr_db, learning_rate and
        rollbacks. It is empty for a loaded network, unless that is a ``model.safetensors`` with a
        ``history.csv`` in the same folder.
    """

    def save(self, path: str | os.PathLike) -> None:
        """Write the network to a file, in the format of the workflow's ``model.safetensors``.

        ``docs/format.md`` describes the format; `neuralfield.load` reads such a file.
        """
        with built_in_kinds():
            self.model.write(require_output("path", path))

    def to_html(self, path: str | os.PathLike) -> None:
        """Write the viewer: an HTML page that evaluates the network on the GPU of its reader.

        The page needs no internet. If the training was run in a folder, or the network was loaded
        from a folder, a slider shows the course of the training. See ``docs/viewer.md``.
        """
        from neuralfield.api.to_html import html_page

        with built_in_kinds():
            file = require_output("path", path)
            shown = self.model, self.render, self.image, file.stem, self.history
            write_atomically(file, html_page(*shown, self.checkpoints).encode())

    def to_onnx(self, path: str | os.PathLike) -> None:
        """Write the network as an ONNX graph in float32.

        The graph has the input "xy", shape (n, 2), and the output "values", shape (n, channels). It
        does not contain the `residual`; if the field has one, a warning is issued.

        Parameters
        ----------
        path : path

        Raises
        ------
        ImportError
            The package onnx is not installed (``pip install neuralfield[onnx]``).
        TypeError
            The network is an upscaler.
        """
        network = self._exported_network("to_onnx")
        require_package("to_onnx", "onnx", "ONNX", "'neuralfield[onnx]'")
        from neuralfield.api.to_onnx import write_onnx  # imported here, as it needs onnx

        with built_in_kinds():
            write_onnx(require_output("path", path), network, self.model)

    def to_torch(self) -> "torch.nn.Module":
        """Return the network as a PyTorch module, from (n, 2) to (n, channels), in float32.

        Its parameters have the same names and shapes as in the file, and can be trained further.
        The module does not contain the `residual`; if the field has one, a warning is issued.

        Raises
        ------
        ImportError
            PyTorch is not installed (``pip install torch``).
        TypeError
            The network is an upscaler.
        """
        network = self._exported_network("to_torch")
        require_package("to_torch", "torch", "PyTorch", "torch")
        from neuralfield.api.to_torch import TorchField  # imported here, as it needs PyTorch

        return TorchField(network)

    def _exported_network(self, method: str) -> CoordinateNetwork:
        """Return the network without the residual; issue a warning if the field has a residual."""
        network = self._network(HOST, "float32")
        if self.residual is not None:
            height, width = self.residual.shape[:2]
            text = (
                f"{method}: the network alone is exported; renders also add an image of {width} x"
                f" {height} pixels, `residual`, so they differ from the export as render(...,"
                " residual=False) does"
            )
            warnings.warn(text, stacklevel=3)
        return network

    def _repr_html_(self) -> str | None:
        """Return the viewer, which notebooks show; None if the network is too large."""
        from neuralfield.api.to_html import notebook_html

        return notebook_html(self.model, self.render, self.image, self.history)

    def _repr_png_(self) -> bytes | None:
        """Return a PNG whose longer side has at most 512 pixels, which notebooks show."""
        return self.render(min(512, max(self.width, self.height)))._repr_png_()

    def __repr__(self) -> str:
        step = self.model.metadata.get("step")
        trained = "" if step is None else f" in {step:,} steps"
        if self.residual is not None:
            height, width = self.residual.shape[:2]
            trained += f"; renders add a residual of {width} x {height} pixels"
        return (
            f"<ImageField: {self.settings['type']} of {self.parameter_count:,} parameters, fitted"
            f" to {self.width} x {self.height} pixels ({self.model.mode}){trained}>"
        )
