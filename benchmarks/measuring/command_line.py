"""Command-line options shared by several benchmarks, and the start of their programs."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from neuralfield.system.device import available_cores
from neuralfield.system.errors import NeuralfieldError

_SHARED: dict[str, dict[str, Any]] = {
    "output": {"type": Path, "help": "Markdown file to write; a JSON file is put beside it"},
    "quick": {"action": "store_true", "help": "use tiny sizes, to test that everything runs"},
    "threads": {"type": int, "default": available_cores(), "help": "CPU cores to use"},
    "device": {"choices": ("auto", "cpu", "gpu"), "default": "auto", "help": "device to use"},
    "peers": {
        "action": argparse.BooleanOptionalAction,
        "default": True,
        "help": "measure PyTorch too",
    },
    "compiled": {
        "action": argparse.BooleanOptionalAction,
        "default": True,
        "help": "measure torch.compile too",
    },
}


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter that keeps the layout of the description, and shows the defaults of options."""

    def _get_help_string(self, action: argparse.Action) -> str:
        default = action.default
        if isinstance(default, list | tuple):
            default = " ".join(map(str, default))
        if default in (None, False, "", argparse.SUPPRESS):
            return action.help or ""
        return f"{action.help or ''} (default: {default})".strip()


def new_parser(description: str | None, *shared: str) -> argparse.ArgumentParser:
    """Return a parser with the docstring of a program, and some of the shared options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=_HelpFormatter)
    for name in shared:
        parser.add_argument(f"--{name}", **_SHARED[name])
    return parser


def start(
    main: Callable[[argparse.Namespace], int | None],
    parser: argparse.ArgumentParser,
    blas_threads: int | None = None,
) -> None:
    """Run a program and exit with its status; print only the message of an error of the package.

    Parameters
    ----------
    blas_threads : int, optional
        Threads of NumPy's matrix products; None leaves them as they are.
    """
    with threadpool_limits(blas_threads):
        try:
            sys.exit(main(parser.parse_args()))
        except NeuralfieldError as error:
            sys.exit(str(error))
