"""The entry point of the command, which shows errors and Ctrl-C without a traceback."""

import os
import sys
from collections.abc import Sequence

from neuralfield.command.parsers import parse
from neuralfield.system.errors import (
    EXIT_CODE_CTRL_C,
    EXIT_CODE_FAILED,
    EXIT_CODE_TRY_AGAIN,
    NeuralfieldError,
)
from neuralfield.system.files import storage_errors
from neuralfield.system.interruption import Interrupted


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit the process with its exit code.

    0: success; 1: an error, shown as one line; 2: invalid arguments; 75: stopped by a signal, to be
    called again; 130: Ctrl-C.
    """
    try:
        with storage_errors():
            chosen = parse(sys.argv[1:] if arguments is None else arguments)
            chosen.action(chosen)
            sys.stdout.flush()
    except NeuralfieldError as error:
        _leave(str(error), EXIT_CODE_FAILED)
    except ImportError as error:
        if str(error.name).startswith("neuralfield"):
            raise
        _leave(f"{error}; install what is missing", EXIT_CODE_FAILED)
    except Interrupted as pause:
        _leave(str(pause), EXIT_CODE_TRY_AGAIN)
    except KeyboardInterrupt as interrupt:
        _leave(str(interrupt) or "interrupted", EXIT_CODE_CTRL_C)
    except BrokenPipeError:  # the reader of a pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_CODE_FAILED)


def _leave(line: str, exit_code: int) -> None:
    print(f"neuralfield: {line}", file=sys.stderr)
    sys.exit(exit_code)
