"""What is needed of libvips wherever it opens files."""

import logging
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pyvips

PROFILE = "icc-profile-data"


def only_loaders(*names: str) -> None:
    """Let libvips open files by these loaders alone, as it calls them: ``Png``, ``Tiff``.

    It knows many formats, PDF and SVG among them.
    """
    import pyvips

    logging.getLogger("pyvips").setLevel(logging.ERROR)  # it logs how its threads end
    pyvips.cache_set_max(0)  # nothing is read twice
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name in names:
        pyvips.operation_block_set(f"VipsForeignLoad{name}", False)


def embedded_profile(image: "pyvips.Image") -> bytes | None:
    """The ICC profile that a file came with."""
    return cast(bytes, image.get(PROFILE)) if PROFILE in image.get_fields() else None
