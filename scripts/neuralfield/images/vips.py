"""Helpers for opening files with libvips."""

import logging
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pyvips

PROFILE = "icc-profile-data"


def only_loaders(*names: str) -> None:
    """Restrict libvips to the loaders of these names, such as ``Png`` or ``Tiff``."""
    import pyvips

    logging.getLogger("pyvips").setLevel(logging.ERROR)  # it logs the end of each of its threads
    pyvips.cache_set_max(0)  # nothing is read twice
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name in names:
        pyvips.operation_block_set(f"VipsForeignLoad{name}", False)


def embedded_profile(image: "pyvips.Image") -> bytes | None:
    """Return the ICC profile of a file, if it has one."""
    return cast(bytes, image.get(PROFILE)) if PROFILE in image.get_fields() else None


def reason_of(error: "pyvips.Error") -> str:
    """Return the last line of libvips' message, which is the most specific one."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"
