"""The errors that a user can meet, and the exit codes of a job.

Every message has the same four parts, so that it can be acted on without reading any code:
where it happened, what was found, what was expected, and what to do. It is one line whatever it
quotes: a file's content may be anything.

=====  ==================================================================================
code   meaning
=====  ==================================================================================
0      done: all outputs are written
1      failed: a line says where, what was found, what was expected and what to do
75     nothing is wrong: asked to stop, or out of time; the state is saved, and the same
       command, Snakemake's ``retries`` or a cluster's requeue goes on from there
       (EX_TEMPFAIL of sysexits.h)
130    Ctrl-C in a job that has no state to save
=====  ==================================================================================

The code of a process that is killed outright (SIGKILL, a power cut) is the operating system's.
"""

import difflib
from typing import Any

_LONGEST_QUOTE = 600
"""Characters of a part of a message; a longer part loses its middle."""


class NeuralfieldError(Exception):
    """A mistake that a user can mend; shown as one line, never as a traceback.

    `where` is the file, the config key or the step that the message is about, `found` the wrong
    value or state, `expected` the right one, and `remedy` what to do about it.

    >>> print(NeuralfieldError("images.cub.size", 0, "a whole number >= 1", "remove the key"))
    images.cub.size: 0; expected a whole number >= 1; remove the key
    """

    def __init__(self, where: str, found: object, expected: str, remedy: str = "") -> None:
        self.where, self.found, self.expected, self.remedy = where, found, expected, remedy
        message = f"{_on_one_line(where)}: {_on_one_line(found)}; expected {_on_one_line(expected)}"
        super().__init__(f"{message}; {_on_one_line(remedy)}" if remedy else message)

    def __reduce__(self):
        return type(self), (self.where, self.found, self.expected, self.remedy)


class ConfigError(NeuralfieldError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class InputError(NeuralfieldError):
    """An image, a table of samples or another input file cannot be used."""


class ResourceError(NeuralfieldError):
    """The machine has too few cores, too little memory, or no GPU where one was asked for."""


class CheckpointError(NeuralfieldError):
    """A saved state or a model file is damaged or belongs to another run."""


class DivergenceError(NeuralfieldError):
    """The loss stopped being a finite number."""


class StorageError(NeuralfieldError):
    """A file cannot be written: the disk is full, a permission is missing, the network is down."""


def did_you_mean(word: object, known: Any) -> str:
    """Return a remedy with the known name closest to a misspelt one; empty if none is close."""
    names = [name for name in known if isinstance(name, str)]
    close = difflib.get_close_matches(str(word), names, n=1)
    return f"did you mean {close[0]}?" if close else ""


def _on_one_line(part: object) -> str:
    """Return text without line ends and other control characters, which a terminal would obey."""
    text = str(part)
    if len(text) > _LONGEST_QUOTE:
        half = _LONGEST_QUOTE // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


EXIT_CODE_FAILED = 1
EXIT_CODE_TRY_AGAIN = 75
EXIT_CODE_CTRL_C = 130
