"""Bring a picture to the size that networks are taught at."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuralfield.images import read_facts, read_picture, resize_picture, write_facts, write_picture
from neuralfield.images.colour import Report, log

if TYPE_CHECKING:
    from entry.job import snakemake

_KINDS = {
    True: ("line art, as nearly all of it is black or white", "line_art"),
    False: ("a photograph, as too little of it is black or white", "quality"),
}
"""By `is_line_art`: how an image was judged, and the preset that suits it."""


def main(
    picture: Path,
    resized: Path,
    facts: Path,
    *,
    size: int | list[int] | None,
    mode: str = "auto",
    threshold: float = 0.5,
    filter: str = "box",
    max_megapixels: float = 100.0,
    report: Report = log.info,
    say_kind: bool = False,
) -> None:
    """Reduce a picture, and note what it was and what it has become.

    Parameters
    ----------
    picture : Path
    resized : Path
        PNG to write.
    facts : Path
        JSON to write: mode, width, height (in pixels) and bit depth of the ``source`` and of what
        is ``resized``, and a digest of the values of the latter. A black-and-white source that was
        reduced has become grey.
    size : int, [int, int] or None
        Longer side, or both; None keeps the picture's own.
    mode : {"auto", "bilevel", "grey", "rgb", "rgba"}
        What the picture is read as.
    threshold : float
        Where white begins, for bilevel.
    filter : {"box", "lanczos", "bicubic"}
    max_megapixels : float
        A larger picture is refused.
    report : callable
        Called with a line on what was done to the colours, and on the kind of image.
    say_kind : bool
        Report what kind of image it was judged to be, which decides on settings that are ``auto``.
    """
    limits = {"threshold": threshold, "max_megapixels": max_megapixels}
    source = read_picture(picture, mode=mode, report=report, **limits)
    reduced = resize_picture(source, size, filter, threshold, mode=mode)
    write_picture(resized, reduced)
    write_facts(facts, source, reduced)
    if say_kind:
        kind, preset = _KINDS[read_facts(facts)["resized"]["is_line_art"]]
        report(f"{picture}: trained as {kind}; preset={preset} is made for that")


if __name__ == "__main__":
    from entry.job import reporter, run_job

    run_job(
        main,
        snakemake,
        report=reporter(snakemake),
        picture=Path(snakemake.input.picture),
        resized=Path(snakemake.output.resized),
        facts=Path(snakemake.output.facts),
        max_megapixels=snakemake.params.max_megapixels,
        say_kind=snakemake.wildcards.image == snakemake.config.get("own_image"),
        **snakemake.params.settings,
    )
