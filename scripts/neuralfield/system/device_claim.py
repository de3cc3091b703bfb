"""One job a card: processes on a machine share its NVIDIA cards out among themselves.

A job takes the first card that is free, before CUDA starts, and lets CUDA see no other. What says
that a card is taken is a lock of the operating system, which ends with its process, however that
ends: after a crash no card stays taken.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from neuralfield.system.errors import ResourceError

LOCK_FOLDER = Path(tempfile.gettempdir()) / "neuralfield-cards"
"""Seen by all users of the machine, because all share its cards."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS_BETWEEN_TRIES = 0.5
_held: list[IO[str]] = []
"""Kept open, and so locked, until the process ends."""


def claim_card(
    share: int,
    say: Callable[[str], None],
    *,
    cards: Sequence[str] | None = None,
    folder: Path = LOCK_FOLDER,
) -> str | None:
    """Take a card for this process, and wait for one where all are taken.

    Sets ``CUDA_VISIBLE_DEVICES``, which CUDA reads when it starts: to be called before that. A
    process claims once; another call changes nothing.

    Parameters
    ----------
    share : int
        How many processes may have one card at the same time.
    say : callable
        Told, in a line, whatever a user should know.
    cards : sequence of str, optional
        Names of the cards to choose from; those of `visible_cards` by default.
    folder : Path
        Where the locks are.

    Returns
    -------
    str or None
        The card; None where cards cannot be told apart, and none is claimed.

    Raises
    ------
    ResourceError
        ``CUDA_VISIBLE_DEVICES`` allows no card, or the folder cannot be written.
    """
    if _held:
        return os.environ.get(_VISIBLE)
    cards = visible_cards(os.environ) if cards is None else cards
    if cards is None:
        return None
    if not cards:
        raise ResourceError(
            _VISIBLE,
            repr(os.environ.get(_VISIBLE)),
            "at least one card",
            "set training.device: cpu",
        )
    _make_shared(folder)
    is_said = False
    while True:
        # first all cards' first places: jobs share a card only where every card has one
        for place in range(share):
            for card in cards:
                file = _lock(folder / f"{card}.{place}")
                if file is not None:
                    _held.append(file)
                    os.environ[_VISIBLE] = card
                    return card
        if not is_said:
            say(f"all of {len(cards)} cards are taken; waiting for one")
            is_said = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def visible_cards(environment: Mapping[str, str]) -> list[str] | None:
    """The cards that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them.

    Whoever started it, such as SLURM, may have named some already; else all of the machine are
    meant. Numbers become names that every process gives a card, however many it sees.

    Parameters
    ----------
    environment : mapping of str to str

    Returns
    -------
    list of str, or None
        None where there is no telling: NVML does not answer.
    """
    all_cards = _cards_of_machine()
    if all_cards is None:
        return None
    given = environment.get(_VISIBLE)
    if given is None:
        return all_cards
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        if name.isdecimal() and int(name) < len(all_cards):
            found.append(all_cards[int(name)])
        elif name.startswith("GPU-"):  # the beginning of a name will do
            found += [card for card in all_cards if card.startswith(name)][:1]
        elif name.startswith("MIG-"):
            found.append(name)
        else:  # CUDA sees none from here on
            break
    return found


def _cards_of_machine() -> list[str] | None:
    """Names of all cards, in the order of their numbers."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        return [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except pynvml.NVMLError:
        return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _make_shared(folder: Path) -> None:
    """A folder in which every user may make files, and remove only their own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o1777)
    except OSError as error:
        raise _refused(folder, error) from error


def _lock(path: Path) -> IO[str] | None:
    """The locked file; None where another process has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, flags & ~os.O_CREAT)
        except FileNotFoundError:
            descriptor = os.open(path, flags, 0o666)
            os.fchmod(descriptor, 0o666)  # others are to lock it too, whatever this user's mask
        file = os.fdopen(descriptor, "r+")
    except OSError as error:
        raise _refused(path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _refused(path: Path, error: OSError) -> ResourceError:
    remedy = "remove it, or set the variable TMPDIR to another folder that all of you share"
    return ResourceError(str(path), error.strerror, "a place for locks on cards", remedy)
