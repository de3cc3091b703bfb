"""The errors that the public interface raises: each is also a subclass of a built-in exception."""

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuralfield.system.errors import (
    CheckpointError,
    ConfigError,
    DivergenceError,
    InputError,
    NeuralfieldError,
    ResourceError,
    StorageError,
)


class InvalidSettingError(ConfigError, ValueError):
    """A setting is out of range, or its name is unknown."""


class UnknownSettingError(ConfigError, TypeError):
    """An argument has an unknown name."""


class InvalidInputError(InputError, ValueError):
    """An image, a table or an array holds invalid values."""


class WrongTypeError(InputError, TypeError):
    """An argument has an unsupported type."""


class MissingFileError(InputError, FileNotFoundError):
    """A file does not exist."""


class InvalidFileError(CheckpointError, ValueError):
    """A file is damaged, or is not a saved network."""


class UnavailableError(ResourceError, RuntimeError):
    """There are too few cores, too little memory, or no GPU."""


class MissingPackageError(ResourceError, ImportError):
    """An optional package is not installed."""


class UnwritableError(StorageError, OSError):
    """A file cannot be written."""


class DivergedError(DivergenceError, ArithmeticError):
    """The loss of a training is no longer a finite number."""


def require_package(where: str, module: str, name: str, to_install: str) -> None:
    """Raise an error unless a package is installed; `to_install` is its argument for pip."""
    if importlib.util.find_spec(module) is None:
        found, remedy = f"{name} is not installed", f"pip install {to_install}"
        raise MissingPackageError(where, found, f"the package {module}", remedy)


_BUILT_IN: dict[type[NeuralfieldError], Any] = {
    ConfigError: InvalidSettingError,
    InputError: InvalidInputError,
    CheckpointError: InvalidFileError,
    ResourceError: UnavailableError,
    StorageError: UnwritableError,
    DivergenceError: DivergedError,
}

_SECTION = re.compile(r"^(training\.|fields: |network: |classifier: )(?=.)")
"""Section of config.yaml in an error's location; it is removed, because programs use arguments."""


@contextmanager
def built_in_kinds() -> Iterator[None]:
    """Convert errors that the package raises to the classes of this module."""
    try:
        yield
    except NeuralfieldError as error:
        kind = _BUILT_IN.get(type(error))
        if kind is None:
            raise
        if isinstance(error.__cause__, FileNotFoundError):
            kind = MissingFileError
        where = _SECTION.sub("", error.where)
        where = "seed" if where == "random_seed" else where
        remedy = error.remedy.replace("training.", "")
        raise kind(where, error.found, error.expected, remedy) from error
