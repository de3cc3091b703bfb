"""The protocols of protocols.py: networks, their training by others, and the dB of others."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from measuring.rows import FINER, GAUSS, HASHGRID_16, SIREN, reduced_field

_MEASURED = "PyTorch, TF32"
_TINY = "tiny-cuda-nn 2.0"
_FINER_PP = "FINER++, mean of 16 images"
_QUICK_STEPS, _QUICK_SIDE_PX = 3, 24
_PAPER_STEPS = 500
_KODAK_SIDE_PX = 768

DIV2K = "div2k"
"""The images of FINER's authors; the result is the mean over the given images."""

FINER_AS_AUTHORS = FINER | {"first_bias": 0.7071}
HASHGRID_AS_AUTHORS = HASHGRID_16 | {"finest_resolution": 7006}
"""Settings in which the resolution grows by a factor of 1.5 from grid to grid."""

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
    """A network, its training, and the dB that others have reached with it.

    Attributes
    ----------
    field : dict
        Type and settings, as in the config.
    image : {"kodim15", "kodim03", "drawing", "div2k"}
        The training image; with ``div2k`` the result is the mean over the given images.
    others_db : float or None
        The dB of others; None for rows "as in the paper", which measure it in the same run.
    source : str
        The source of the number.
    schedule : {"cosine", "exponential", "constant"}
        An exponential schedule ends at a tenth of the rate.
    training : dict
        Further settings.
    side_px : int, optional
        Images with longer sides are reduced to this.
    of_program : dict
        Settings for the program in PyTorch only.
    """

    name: str
    field: dict[str, Any]
    image: str
    steps: int
    learning_rate: float
    others_db: float | None
    source: str
    schedule: str = "cosine"
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    side_px: int | None = None
    of_program: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The section `training`, with all pixels in every step, fitted at their centres."""
        ends = {"minimum_learning_rate": 0.1 * self.learning_rate}
        return {
            "supervision": "point",
            "batch_pixels": 0,
            "detail_share": 0.0,
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "schedule": self.schedule,
            **(ends if self.schedule == "exponential" else {}),
            **self.training,
        }

    @property
    def training_in_words(self) -> str:
        """Describe optimizer, learning rate and schedule, for the table."""
        others = "".join(
            f", {name}" if value is True else f", {name} {value:g}"
            for name, value in self.training.items()
            if name != "optimizer"
        )
        optimizer = self.training.get("optimizer", "adam")
        return f"{optimizer} {self.learning_rate:g}, {self.schedule}{others}"

    def reduced(self) -> "Protocol":
        """Return a tiny protocol of the same kind."""
        return dataclasses.replace(
            self, field=reduced_field(self.field), steps=_QUICK_STEPS, side_px=_QUICK_SIDE_PX
        )


def _kodak() -> Iterator[Protocol]:
    """Yield SIREN and related networks at 768 x 512, with 4,000 steps."""
    wide, muon = SIREN | {"weight_scale": 1.5}, {"optimizer": "muon"}
    for image, siren, scaled, finer, both, muon_db in (
        ("kodim15", 34.6, 36.9, 36.8, 38.2, 39.4),
        ("kodim03", 37.4, 39.0, 40.0, 41.8, None),
    ):
        yield Protocol("siren", SIREN, image, 4000, 5e-4, siren, _MEASURED)
        yield Protocol("siren, weights x 1.5", wide, image, 4000, 5e-4, scaled, _MEASURED)
        yield Protocol("finer", FINER_AS_AUTHORS, image, 4000, 5e-4, finer, _MEASURED)
        name = "siren, weights x 1.5, muon"
        yield Protocol(name, wide, image, 4000, 5e-4, both, _MEASURED, training=muon)
        if muon_db is not None:
            yield Protocol(name, wide, image, 4000, 2e-3, muon_db, _MEASURED, training=muon)


def _grids() -> Iterator[Protocol]:
    """Yield hash grids; at a constant rate, the dB of the last step varies randomly in both."""
    beta2 = {"beta2": 0.99}
    for schedule, others in (
        ("constant", {}),
        ("constant", {"keep_best": True}),
        ("cosine", {}),
    ):
        for steps, db in ((1000, 47.1), (5000, 51.8)):
            name, training = "hashgrid 16 x 2^15", beta2 | others
            yield Protocol(
                *(name, HASHGRID_AS_AUTHORS, "kodim15", steps, 1e-2, db, _TINY, schedule, training)
            )
    for name, of_program in (
        ("hashgrid 16 x 2^15, theirs in float16", {"half": True}),
        ("hashgrid 16 x 2^15, theirs from grey", {"grey": True}),
        ("hashgrid 16 x 2^15, theirs with our layers", {"our_layers": True}),
    ):
        yield Protocol(
            *(name, HASHGRID_AS_AUTHORS, "kodim15", 1000, 1e-2, None, "", "cosine", beta2),
            *(_KODAK_SIDE_PX, of_program),
        )
    small, source = HASHGRID_AS_AUTHORS | {"log2_table_size": 12}, f"{_TINY} (70 to 100)"
    yield Protocol(
        *("hashgrid 16 x 2^12", small, "drawing", 2000, 1e-2, 70.0, source, "cosine", beta2)
    )


def _div2k() -> Iterator[Protocol]:
    """Yield rows trained as by FINER's authors: the rate falls to a tenth."""
    for name, field, rate, db in (
        ("siren", SIREN, 5e-4, 40.06),
        ("finer", FINER_AS_AUTHORS, 5e-4, 42.13),
        ("gauss", GAUSS | {"scale": 30.0}, 5e-3, 35.05),
        ("wire", WIRE, 5e-3, 32.02),
    ):
        yield Protocol(name, field, DIV2K, 5000, rate, db, _FINER_PP, "exponential")


def _papers() -> Iterator[Protocol]:
    """Yield each field for comparison with a program that has its paper's formula.

    If that formula differs from ours in more than random numbers, a further row is without the
    difference.
    """
    clipped = {"gradient_clip_norm": 1.0, "minimum_learning_rate": 1e-5}
    for name, settings, rate, training, of_program in (
        ("siren, as in the paper", SIREN, 5e-4, {}, {}),
        ("siren, muon, as in the paper", SIREN, 5e-4, {"optimizer": "muon"}, {}),
        ("finer, as in the paper", FINER_AS_AUTHORS, 5e-4, {}, {}),
        ("finer, exact derivatives", FINER_AS_AUTHORS, 5e-4, {}, {"exact_derivative": True}),
        ("gauss, as in the paper", GAUSS | {"scale": 30.0}, 5e-3, {}, {}),
        ("wire, as in the paper", WIRE, 5e-3, {}, {}),
        ("wire, weights as siren's", WIRE, 5e-3, {}, {"sirens_weights": True}),
        ("fourier, as in the paper", FOURIER, 1e-3, {}, {}),
        ("fourier, the same start", FOURIER, 1e-3, {}, {"same_start": True}),
        ("cafe, as in the paper", CAFE, 5e-3, clipped, {}),
    ):
        yield Protocol(
            *(name, settings, "kodim15", _PAPER_STEPS, rate, None, "", "cosine", training),
            of_program=of_program,
        )


PROTOCOLS = (
    Protocol("siren", SIREN, "drawing", 3000, 1e-4, 52.9, _MEASURED, "constant"),
    Protocol("siren", SIREN, "kodim15", 2000, 1e-4, 31.5, _MEASURED, "constant"),
    *_grids(),
    *_kodak(),
    *_div2k(),
    *_papers(),
)
