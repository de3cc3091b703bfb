"""The errors that are shown to users, and the exit codes of a job.

Every message has the same four parts, so that users can act on it without reading any code: where
the error happened, what was found, what was expected, and what to do. A message is always a single
line, even if it quotes the content of a file.

=====  ==================================================================================
code   meaning
=====  ==================================================================================
0      done: all outputs are written
1      failed: a line says where, what was found, what was expected and what to do
75     interrupted by a signal or a time limit, without an error; the state is saved, and
       the same command, Snakemake's ``retries`` or a cluster's requeue resumes from it
       (EX_TEMPFAIL of sysexits.h)
130    Ctrl-C in a job that has no state to save
=====  ==================================================================================

The exit code of a process that is killed (SIGKILL, a power cut) is set by the operating system.
"""

import difflib
from typing import Any

_LONGEST_QUOTE = 600
"""Maximum number of characters of a part of a message; the middle of a longer part is removed."""


class NeuralfieldError(Exception):
    """Base class of errors that a user can correct; they are shown as one line, not a traceback.

    `where` is the file, the config key or the step of the error, `found` the wrong value or state,
    `expected` the correct one, and `remedy` the suggested correction. Each subclass is also one of
    a built-in exception, which programs that import the package can catch.

    >>> print(NeuralfieldError("images.cub.size", 0, "a whole number >= 1", "remove the key"))
    images.cub.size: 0; expected a whole number >= 1; remove the key
    """

    def __init__(self, where: str, found: object, expected: str, remedy: str = "") -> None:
        self.where, self.found, self.expected, self.remedy = where, found, expected, remedy
        message = f"{_on_one_line(where)}: {_on_one_line(found)}; expected {_on_one_line(expected)}"
        super().__init__(f"{message}; {_on_one_line(remedy)}" if remedy else message)

    def __reduce__(self):
        return type(self), (self.where, self.found, self.expected, self.remedy)


class ConfigError(NeuralfieldError, ValueError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class UnknownSettingError(NeuralfieldError, TypeError):
    """An argument of a function has an unknown name."""


class InputError(NeuralfieldError, ValueError):
    """An image, a table of samples, an array or another input cannot be used."""


class MissingFileError(InputError, FileNotFoundError):
    """An input file does not exist."""


class WrongTypeError(NeuralfieldError, TypeError):
    """An argument of a function has an unsupported type."""


class ResourceError(NeuralfieldError, RuntimeError):
    """The machine has too few cores, too little memory, or no GPU where one was asked for."""


class MissingPackageError(ResourceError, ImportError):
    """An optional package is not installed."""


class CheckpointError(NeuralfieldError, ValueError):
    """A saved state or a model file is damaged or belongs to another run."""


class DivergenceError(NeuralfieldError, ArithmeticError):
    """The loss is no longer a finite number."""


class StorageError(NeuralfieldError, OSError):
    """A file cannot be written: the disk is full, a permission is missing, the network is down."""


def did_you_mean(word: object, known: Any) -> str:
    """Return a remedy with the known name closest to a misspelt one; empty if none is close."""
    names = [name for name in known if isinstance(name, str)]
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]}?" if close else ""


def _on_one_line(part: object) -> str:
    """Escape line ends and other control characters, which a terminal would obey; shorten text."""
    text = str(part)
    if len(text) > _LONGEST_QUOTE:
        half = _LONGEST_QUOTE // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


EXIT_CODE_FAILED = 1
EXIT_CODE_TRY_AGAIN = 75
EXIT_CODE_CTRL_C = 130
