"""Reading the files of images, `.nfz`."""

import os
from pathlib import Path

from neuralfield.api.arguments import require_path, require_positive
from neuralfield.api.rendered import RenderedImage
from neuralfield.coding import nfz
from neuralfield.coding.decoding import pixels_of
from neuralfield.engines.cuda.latents.decoder import CudaDecoder
from neuralfield.images.image import MODES, ImageData
from neuralfield.system.device import select_device
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import open_input
from neuralfield.viewing.coded_page import coded_page


def decode(
    source: str | os.PathLike | bytes,
    *,
    max_megapixels: float = nfz.MAX_MEGAPIXELS,
    device: str = "cpu",
) -> RenderedImage:
    """Decode a file that `neuralfield.encode` has written.

    The pixels are the same on every machine, bit for bit.

    Parameters
    ----------
    source : path or bytes
        An ``.nfz`` file, or its content.
    max_megapixels : float
        Maximum size of the image; a larger one raises ValueError.
    device : {"cpu", "gpu", "auto"}
        Where to decode. The first image takes longer on a GPU, for which kernels are compiled.

    Returns
    -------
    RenderedImage
        float32 multiples of 1 / 255, shape (height, width) for grey, otherwise (height, width, 3
        or 4). ``levels()`` returns the decoded levels, uint8; ``save("photo.png")`` writes them.

    Raises
    ------
    ValueError
        The file is damaged, cut off, of a newer version or of another kind, or the image is too
        large.
    FileNotFoundError
        The file does not exist.

    Examples
    --------
    >>> import neuralfield as nf
    >>> nf.decode(b"GIF89a")
    Traceback (most recent call last):
      ...
    neuralfield.system.errors.InputError: source: is not a coded image; ...
    """
    content, where = content_of(source)
    values = decoded(content, where, max_megapixels, device).values()
    return (values[..., 0] if values.shape[2] == 1 else values).view(RenderedImage)


def content_of(source: str | os.PathLike | bytes) -> tuple[bytes, str]:
    """Return the content of a file, and its name in errors."""
    if isinstance(source, bytes):
        return source, "source"
    path = require_path("source", source)
    with open_input(path, nfz.EXPECTED) as file:
        content = file.read(nfz.MOST_BYTES + 1)
    if len(content) > nfz.MOST_BYTES:
        found, expected = "is too large", f"at most {nfz.MOST_BYTES >> 20} MiB"
        raise InputError(str(path), found, expected)
    return content, str(path)


def decoded(
    content: bytes,
    where: str,
    max_megapixels: float = nfz.MAX_MEGAPIXELS,
    device: str = "cpu",
) -> ImageData:
    """Decode the content of a file; `where` names it in errors."""
    require_positive("max_megapixels", max_megapixels)
    selected = select_device(device)
    if selected.kind == "gpu":
        decoder = CudaDecoder(selected)
        image = nfz.from_bytes(content, where, max_megapixels, decoder.read_latents)
        return ImageData(decoder.pixels(image), MODES[image.channels], 8)
    image = nfz.from_bytes(content, where, max_megapixels)
    return ImageData(pixels_of(image), MODES[image.channels], 8)


def page_of(source: str | os.PathLike, max_megapixels: float) -> str:
    """Return an HTML page that contains a file, and decodes it in the browser."""
    content, where = content_of(source)
    nfz.from_bytes(content, where, max_megapixels)  # damage is reported here, not in the page
    return coded_page(content, Path(source).stem)
