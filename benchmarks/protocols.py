"""Each field under the protocols that others published or measured it with: their dB, and ours.

    PYTHONPATH=scripts:workflow python benchmarks/protocols.py --kodak kodak --drawing cub.png

Steps, optimizer, learning rate, network and size are theirs. Two kinds of rows: those with a number
from elsewhere, and "as in the paper", where a small program of the paper's formula and initial
weights (peers_torch_papers.py) is taught in PyTorch beside ours. Rows whose pictures are not given
are left out. `--div2k` is for the folder of pictures that FINER's authors measure with,
data/div2k/test_data of their repository.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fits import Fit, fit, picture_of
from rows import FINER, GAUSS, HASHGRID_16, SIREN, reduced_field
from threadpoolctl import threadpool_limits

from neuralfield.device import Device, available_cores, select_device
from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.picture_task import PictureTask
from neuralfield.training import PictureTraining

_MEASURED = "PyTorch, TF32"
_TINY = "tiny-cuda-nn 2.0"
_FINER_PP = "FINER++, mean of 16 pictures"
_QUICK_STEPS, _QUICK_SIDE_PX = 3, 24
_PAPER_SIDE_PX, _PAPER_STEPS = 192, 500

FINER_AS_AUTHORS = FINER | {"first_bias": 0.7071}
HASHGRID_AS_AUTHORS = HASHGRID_16 | {"finest_resolution": 7006}
"""Each grid half as fine again as the one before."""

CAFE = {
    "type": "cafe",
    "frequencies": 88,
    "scale": 30.0,
    "chebyshev_degree": 29,
    "factors": 3,
    "hidden_layers": 1,
    "width": 236,
}
FOURIER = {"type": "fourier", "frequencies": 128, "hidden_layers": 3, "width": 256}
WIRE = {"type": "wire", "hidden_layers": 3, "width": 181, "omega_0": 20.0, "scale": 10.0}


@dataclass(frozen=True)
class Protocol:
    """A network, how it is trained, and what it reached elsewhere.

    Attributes
    ----------
    name : str
    field : dict
        As in the config.
    picture : {"kodim15", "kodim03", "drawing", "div2k"}
        What it is taught; of ``div2k`` each picture given, and the mean counts.
    steps : int
    learning_rate : float
    others_db : float or None
        Theirs; None: as in the paper, found in the same run.
    source : str
        Whose number that is.
    schedule : {"cosine", "constant"}
    training : dict
        Further settings.
    side_px : int, optional
        Pictures with longer sides are reduced.
    """

    name: str
    field: dict[str, Any]
    picture: str
    steps: int
    learning_rate: float
    others_db: float | None
    source: str
    schedule: str = "cosine"
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    side_px: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The section `training`: all pixels in every step, by their centres."""
        return {
            "supervision": "point",
            "batch_pixels": 0,
            "detail_share": 0.0,
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "schedule": self.schedule,
            **self.training,
        }

    @property
    def training_in_words(self) -> str:
        """Optimizer, rate and schedule, for the table."""
        others = "".join(
            f", {name} {value:g}" for name, value in self.training.items() if name != "optimizer"
        )
        optimizer = self.training.get("optimizer", "adam")
        return f"{optimizer} {self.learning_rate:g}, {self.schedule}{others}"

    def reduced(self) -> "Protocol":
        """The same kind of row, tiny."""
        return dataclasses.replace(
            self, field=reduced_field(self.field), steps=_QUICK_STEPS, side_px=_QUICK_SIDE_PX
        )


def _kodak() -> Iterator[Protocol]:
    """SIREN and its relatives at 768 x 512, 4,000 steps."""
    wide, muon = SIREN | {"weight_scale": 1.5}, {"optimizer": "muon"}
    for picture, siren, scaled, finer, both, muon_db in (
        ("kodim15", 34.6, 36.9, 36.8, 38.2, 39.4),
        ("kodim03", 37.4, 39.0, 40.0, 41.8, None),
    ):
        yield Protocol("siren", SIREN, picture, 4000, 5e-4, siren, _MEASURED)
        yield Protocol("siren, weights x 1.5", wide, picture, 4000, 5e-4, scaled, _MEASURED)
        yield Protocol("finer", FINER_AS_AUTHORS, picture, 4000, 5e-4, finer, _MEASURED)
        name = "siren, weights x 1.5, muon"
        yield Protocol(name, wide, picture, 4000, 5e-4, both, _MEASURED, training=muon)
        if muon_db is not None:
            yield Protocol(name, wide, picture, 4000, 2e-3, muon_db, _MEASURED, training=muon)


def _papers() -> Iterator[Protocol]:
    """Each field beside a program of its paper's formula."""
    for name, settings, rate, training in (
        ("siren", SIREN, 5e-4, {}),
        ("siren, muon", SIREN, 5e-4, {"optimizer": "muon"}),
        ("finer", FINER_AS_AUTHORS, 5e-4, {}),
        ("gauss", GAUSS | {"scale": 30.0}, 5e-3, {}),
        ("wire", WIRE, 5e-3, {}),
        ("fourier", FOURIER, 1e-3, {}),
        ("cafe", CAFE, 5e-3, {"gradient_clip_norm": 1.0, "minimum_learning_rate": 1e-5}),
    ):
        yield Protocol(
            f"{name}, as in the paper",
            settings,
            "kodim15",
            _PAPER_STEPS,
            rate,
            None,
            "its formula in PyTorch",
            training=training,
        )


_BETA2 = {"beta2": 0.99}
PROTOCOLS = (
    Protocol("siren", SIREN, "drawing", 3000, 1e-4, 52.9, _MEASURED, "constant"),
    Protocol("siren", SIREN, "kodim15", 2000, 1e-4, 31.5, _MEASURED, "constant"),
    *(
        Protocol(
            "hashgrid 16 x 2^15",
            HASHGRID_AS_AUTHORS,
            "kodim15",
            steps,
            1e-2,
            db,
            _TINY,
            schedule,
            _BETA2,
        )
        for schedule in ("constant", "cosine")
        for steps, db in ((1000, 47.1), (5000, 51.8))
    ),
    Protocol(
        "hashgrid 16 x 2^12",
        HASHGRID_AS_AUTHORS | {"log2_table_size": 12},
        "drawing",
        2000,
        1e-2,
        70.0,
        f"{_TINY} (70 to 100)",
        "cosine",
        _BETA2,
    ),
    *_kodak(),
    Protocol("siren", SIREN, "div2k", 5000, 5e-4, 40.06, _FINER_PP),
    Protocol("finer", FINER_AS_AUTHORS, "div2k", 5000, 5e-4, 42.13, _FINER_PP),
    Protocol("gauss", GAUSS | {"scale": 30.0}, "div2k", 5000, 5e-3, 35.05, _FINER_PP),
    Protocol("wire", WIRE, "div2k", 5000, 5e-3, 32.02, _FINER_PP),
    *_papers(),
)
_PYTORCH_HERE = find_spec("torch") is not None


def main() -> None:
    """Print a row for each protocol whose pictures are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kodak", type=Path, help="folder with kodim15.png and kodim03.png")
    parser.add_argument("--drawing", type=Path, help="the lion cub of 200 x 200 pixels")
    parser.add_argument("--div2k", type=Path, help="folder of pictures of 512 x 512 pixels")
    parser.add_argument("--rows", nargs="+", default=[""], help="parts of 'NAME, PICTURE'")
    parser.add_argument(
        "--paper-side",
        type=int,
        default=_PAPER_SIDE_PX,
        help="longer side of rows 'as in the paper'",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="of rows 'as in the paper'; the mean counts"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--quick", action="store_true", help="tiny: to see that all runs")
    arguments = parser.parse_args()
    device = select_device(arguments.device)
    print(f"{device.name}\n")
    print(
        "| network | picture | parameters | steps | optimizer | theirs, dB | source | ours, dB",
        end="",
    )
    print(" | difference | lost at the end, dB | seconds |\n" + "|---" * 11 + "|")
    for protocol in PROTOCOLS:
        title = f"{protocol.name}, {protocol.picture}"
        pictures = _pictures(protocol.picture, arguments)
        if pictures and any(part in title for part in arguments.rows):
            seeds = 1
            if protocol.others_db is None:
                protocol = dataclasses.replace(protocol, side_px=arguments.paper_side)
                seeds = arguments.seeds
            chosen = protocol.reduced() if arguments.quick else protocol
            _measure(chosen, pictures, seeds, device, arguments.threads)


def _pictures(name: str, arguments: argparse.Namespace) -> list[Path]:
    """The files of a protocol's pictures; none where they are not given."""
    if name == "div2k" and arguments.div2k:
        found = sorted(arguments.div2k.glob("*.png"))
        return found or sys.exit(f"{arguments.div2k}: no *.png; expected the pictures of DIV2K")
    if name == "div2k":
        return []
    if name == "drawing":
        return [arguments.drawing] if arguments.drawing else []
    return [arguments.kodak / f"{name}.png"] if arguments.kodak else []


def _measure(
    protocol: Protocol, paths: list[Path], seeds: int, device: Device, threads: int
) -> None:
    pictures = [picture_of(path, protocol.side_px) for path in paths]
    trainings = [
        (picture, protocol.settings | {"random_seed": seed})
        for picture in pictures
        for seed in range(seeds)
    ]
    fits = [fit(picture, protocol.field, t, device, threads) for picture, t in trainings]
    found = Fit(*np.mean(fits, axis=0))
    theirs = protocol.others_db
    if theirs is None and _PYTORCH_HERE:
        theirs = float(np.mean([_in_pytorch(p, protocol.field, t, device) for p, t in trainings]))
    reference = "- | " if theirs is None else f"{theirs:.2f} | "
    first, many = pictures[0], f"{len(pictures)} of " * (len(pictures) > 1)
    print(
        f"| {protocol.name} | {many}{protocol.picture}, {first.width}x{first.height}"
        f" | {found.parameters:,.0f} | {protocol.steps:,} | {protocol.training_in_words}"
        f" | {reference}{protocol.source} | {found.db:.2f}"
        f" | {'-' if theirs is None else f'{found.db - theirs:+.2f}'}"
        f" | {found.lost_db:.2f} | {found.seconds:.1f} |",
        flush=True,
    )


def _in_pytorch(
    picture: Picture, field: dict[str, Any], training: dict[str, Any], device: Device
) -> float:
    from peers_torch_papers import learn_as_in_paper

    settings = PictureTraining.from_mapping(training)
    task = PictureTask(picture.values(), picture.mode, field_settings(field), settings)
    return learn_as_in_paper(task, field, device)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
