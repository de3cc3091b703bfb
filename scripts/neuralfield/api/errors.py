"""The errors of the package as programs expect them: each is of a built-in kind, too."""

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
    """An argument has a name that no setting has."""


class InvalidInputError(InputError, ValueError):
    """An image, a table or an array holds what cannot be used."""


class WrongTypeError(InputError, TypeError):
    """An argument is of a type that cannot be used."""


class MissingFileError(InputError, FileNotFoundError):
    """A file is not there."""


class InvalidFileError(CheckpointError, ValueError):
    """A saved network is damaged, or is another kind of file."""


class UnavailableError(ResourceError, RuntimeError):
    """There are too few cores, too little memory, or no GPU."""


class MissingPackageError(ResourceError, ImportError):
    """A package that only some functions need is not installed."""


class UnwritableError(StorageError, OSError):
    """A file cannot be written."""


class DivergedError(DivergenceError, ArithmeticError):
    """The loss of a training stopped being a finite number."""


def require_package(where: str, module: str, name: str, to_install: str) -> None:
    """Refuse to go on without a package; `to_install` is what pip is to be given."""
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
"""The place of a setting in config.yaml is left out: a program has arguments instead."""


@contextmanager
def built_in_kinds() -> Iterator[None]:
    """Raise the package's errors as those of this module."""
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
