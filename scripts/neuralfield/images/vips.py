"""libvips, imported when it is first used, because that takes a moment."""

import logging
from functools import cache
from types import ModuleType


@cache
def load_vips() -> ModuleType:
    """Import pyvips, without its log messages and its cache."""
    import pyvips

    logging.getLogger("pyvips").setLevel(logging.ERROR)  # it logs the end of each of its threads
    pyvips.cache_set_max(0)  # nothing is read twice
    return pyvips


def reason_of(error: Exception) -> str:
    """Return the last line of an error, which is the most specific one of libvips."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
