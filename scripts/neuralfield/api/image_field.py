"""Images as functions of position, to render, save and export."""

import html
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralfield.api.arguments import (
    argument_names,
    render_sides,
    require,
    require_output,
    require_png,
    require_positive,
    require_samples,
)
from neuralfield.api.image_function import ImageFunction
from neuralfield.api.rendered import RenderedImage
from neuralfield.api.training_image import training_image
from neuralfield.fields import CoordinateNetwork
from neuralfield.images.coordinates import WHOLE, Box
from neuralfield.images.metrics import as_seen, psnr_db
from neuralfield.rendering.render import render, render_to_png
from neuralfield.rendering.vectors.drawing_svg import TOLERANCE_PX, field_svg
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.device import HOST, available_cores, select_device
from neuralfield.system.errors import InputError, MissingPackageError
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.history import History

if TYPE_CHECKING:
    import torch

_MOST_SHOWN_PARAMETERS = 500_000
"""Maximum number of parameters of a network for which notebooks show the viewer.

For a larger network they show a render, because the viewer would add megabytes to the notebook.
"""


class ImageField(ImageFunction):
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

    def __init__(
        self,
        model: Model,
        *,
        device: str = "auto",
        history: History | None = None,
        image: np.ndarray | None = None,
        checkpoints: Path | None = None,
        measured_db: float | None = None,
    ) -> None:
        super().__init__(model)
        self.device, self.history = device, history or {}
        self.image, self.checkpoints, self._measured_db = image, checkpoints, measured_db

    @property
    def residual(self) -> np.ndarray | None:
        """The image that `render` adds to the network's values; None if there is no such image.

        It is a float32 array of shape (k * height, k * width, channels), where height and width are
        those of the training image and k is a whole number.
        """
        return self.model.residual

    @cached_property
    def psnr(self) -> float | None:
        """The PSNR of a render with respect to the training image, in decibels.

        It is None if it is not known; pass the training image to `neuralfield.load` to compute it.
        """
        return self._measured_db if self.image is None else self._psnr(self.image)

    def psnr_to(self, image: Any) -> float:
        """Return the PSNR in decibels of a render with respect to an image of any size.

        The image is given as to `neuralfield.fit`; the render has the size of the image.

        Raises
        ------
        ValueError
            The image has a different number of channels than the field.
        """
        return self._psnr(training_image(image).values)

    def _psnr(self, values: np.ndarray) -> float:
        height, width, channels = values.shape
        if channels != self.channels:
            found = f"an image of {channels} channel{'s' * (channels != 1)}"
            raise InputError("image", found, f"{self.channels}, as the field has")
        return psnr_db(as_seen(render(self.model, width, height, **self._place)), as_seen(values))

    def render(
        self,
        size: int | Sequence[int] | None = None,
        *,
        box: Box = WHOLE,
        samples: int | str = "auto",
        residual: bool = True,
        paper: bool = True,
        max_megapixels: float = 400.0,
    ) -> RenderedImage:
        """Render the image, or a part of it, at any size.

        Parameters
        ----------
        size : int or (int, int), optional
            The longer side in pixels, or (width, height). The default is the size that the box has
            in the training image.
        box : (left, top, right, bottom)
            The part to render, in fractions of the image's sides.
        samples : int or "auto"
            Number of samples per pixel; the value of a pixel is their mean.
        residual : bool
            Whether to add the field's `residual`, if it has one; otherwise only the network is
            rendered.
        paper : bool
            False: the paper of a drawing in one ink is transparent, and alpha is the ink's share.
        max_megapixels : float
            Maximum size of the render; a larger one raises ValueError.

        Returns
        -------
        RenderedImage
            A float32 array in [0, 1], of shape (height, width) for grey and (height, width, 3 or 4)
            for colour.

        Raises
        ------
        ValueError
            The size is below 1 or too large, or the box is empty or outside the image; or the image
            is not a drawing in one ink, and `paper` is False.
        """
        require_samples(samples)
        sides = render_sides(self.model, size, box, max_megapixels)
        options = self._place | {"box": box, "samples": samples, "paper": paper}
        values = render(self._shown(residual), *sides, **options)
        return (values[..., 0] if values.shape[2] == 1 else values).view(RenderedImage)

    def render_to(
        self,
        path: str | os.PathLike,
        size: int | Sequence[int] | None = None,
        *,
        box: Box = WHOLE,
        samples: int | str = "auto",
        residual: bool = True,
        paper: bool = True,
        bit_depth: int = 8,
        max_megapixels: float = 400.0,
    ) -> tuple[int, int]:
        """Render to a PNG file of any size, holding only one band of it in memory at a time.

        Parameters
        ----------
        path : path
        size, box, samples, residual, paper
            As in `render`.
        bit_depth : {8, 16}
            Bits per channel.
        max_megapixels : float
            Maximum size of the render; a larger one raises ValueError.

        Returns
        -------
        width, height : int
            In pixels.
        """
        file = require_png("path", path)
        require(bit_depth in (8, 16), "bit_depth", bit_depth, "8 or 16")
        require_samples(samples)
        sides = render_sides(self.model, size, box, max_megapixels)
        options = self._place | {"box": box, "samples": samples, "bit_depth": bit_depth}
        options["paper"] = paper
        render_to_png(self._shown(residual), file, *sides, **options)
        return sides

    def _shown(self, residual: bool) -> Model:
        return self.model if residual else replace(self.model, residual=None)

    @property
    @argument_names()
    def _place(self) -> dict[str, Any]:
        """The device and the number of CPU cores that compute renders."""
        return {"device": select_device(self.device), "threads": available_cores()}

    def save(self, path: str | os.PathLike) -> None:
        """Write the network to a file, in the format of the workflow's ``model.safetensors``.

        ``docs/format.md`` describes the format; `neuralfield.load` reads such a file.
        """
        self.model.write(require_output("path", path))

    def to_html(self, path: str | os.PathLike) -> None:
        """Write the viewer: an HTML page that evaluates the network on the GPU of its reader.

        The page needs no internet. If the training was run in a folder, or the network was loaded
        from a folder, a slider shows the course of the training. See ``docs/viewer.md``.
        """
        file = require_output("path", path)
        snapshots = list_snapshots(self.checkpoints) if self.checkpoints else ()
        write_atomically(file, self._page(file.stem, snapshots).encode())

    def to_svg(
        self, path: str | os.PathLike, *, tolerance: float = TOLERANCE_PX, paper: bool = True
    ) -> None:
        """Write the image, a drawing of flat tones, as an SVG file of lines and cubic curves.

        Each tone but that of the paper is a layer, and each connected region a path. The contours
        are those of a render, at a level half-way between two tones that is moved a little so that
        areas agree with the render. See ``docs/drawings.md``.

        Parameters
        ----------
        path : path
        tolerance : float
            Maximum distance of curves from contours, in pixels of the training image. A larger one
            gives fewer curves.
        paper : bool
            Whether to fill the background with the paper's tone; otherwise it is transparent.

        Raises
        ------
        ValueError
            The image has no flat tones, like a photograph, or is too large.
        """
        file = require_output("path", path)
        require(file.suffix.lower() == ".svg", "path", os.fspath(file), "a name that ends in .svg")
        require_positive("tolerance", tolerance)
        svg = field_svg(self.model, tolerance_px=float(tolerance), paper=paper, **self._place)
        write_atomically(file, svg.encode())

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
        """
        network = self._exported_network("to_onnx")
        try:
            from neuralfield.api.to_onnx import write_onnx
        except ImportError as error:
            raise _not_installed("to_onnx", "onnx", "'neuralfield[onnx]'") from error
        write_onnx(require_output("path", path), network, self.model)

    def to_torch(self) -> "torch.nn.Module":
        """Return the network as a PyTorch module, from (n, 2) to (n, channels), in float32.

        Its parameters have the same names and shapes as in the file, and can be trained further.
        The module does not contain the `residual`; if the field has one, a warning is issued.

        Raises
        ------
        ImportError
            PyTorch is not installed (``pip install torch``).
        """
        network = self._exported_network("to_torch")
        try:
            from neuralfield.api.to_torch import TorchField
        except ImportError as error:
            raise _not_installed("to_torch", "torch", "torch") from error
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

    def _page(self, title: str, snapshots: Sequence[tuple[int, Path]] = ()) -> str:
        """Return the viewer, an HTML page, with snapshots of the training if there are any."""
        from neuralfield.viewing.viewer_page import PREVIEW_PX, viewer_page

        longer = max(self.width, self.height)
        return viewer_page(
            self.model,
            self.render(longer) if self.image is None else self.image,
            self.render(min(PREVIEW_PX, 4 * longer)),
            image=title,
            field=self.settings["type"],
            snapshots=snapshots,
            history=self.history,
        )

    def _repr_html_(self) -> str | None:
        """Return the viewer in an iframe, without snapshots, which notebooks show.

        It is None if the network is too large.
        """
        if self.parameter_count > _MOST_SHOWN_PARAMETERS:
            return None
        height = min(720, 190 + round(640 * self.height / max(self.width, self.height)))
        page = html.escape(self._page("image"))
        return f'<iframe srcdoc="{page}" width="100%" height="{height}" style="border: 0"></iframe>'

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


def _not_installed(where: str, package: str, to_install: str) -> MissingPackageError:
    found, expected = f"{package} is not installed", f"the package {package}"
    return MissingPackageError(where, found, expected, f"pip install {to_install}")
