"""Reduce an image to the size that networks are trained at."""

from collections.abc import Mapping
from pathlib import Path

from entry.job import run_job
from neuralfield.images import (
    read_facts,
    read_image,
    resize_image,
    restoring,
    write_facts,
    write_image,
)
from neuralfield.images.colour import Report, log
from neuralfield.images.image_facts import kind_in
from neuralfield.images.jpeg_file import read_jpeg
from neuralfield.images.kind import Kind
from neuralfield.images.page import find_page
from neuralfield.tasks.image.presets import SUITABLE


def main(
    image: Path,
    resized: Path,
    facts: Path,
    *,
    size: int | list[int] | None,
    mode: str = "auto",
    threshold: float = 0.5,
    filter: str = "box",
    page: bool | Mapping[str, bool | float] = False,
    restore: bool | Mapping[str, float | str] = True,
    max_megapixels: float = 100.0,
    threads: int = 1,
    report: Report = log.info,
    say_kind: bool = False,
    named_preset: str | None = None,
) -> None:
    """Reduce an image, and describe the source and the result.

    For `facts` see `read_facts`, and for `size`, `filter`, `mode` and `threshold` `resize_image`;
    an image above `max_megapixels` is refused. For `page` see `neuralfield.images.page.find_page`,
    and for `restore` `neuralfield.images.restoring.restore`. `report` is called with a message
    about conversions of colours, with one about a page, with one about a restored drawing and, with
    `say_kind`, with a message about the kind of image, which determines settings that are ``auto``.
    A preset named by the user is reported instead of the one that suits the kind of image.
    """
    limits = {"threshold": threshold, "max_megapixels": max_megapixels}
    source = read_image(image, mode=mode, report=report, **limits)
    if (found := find_page(source, page)) is not None:
        report(f"{image}: {found}")
        source = found.image
    reduced = resize_image(source, size, filter, threshold, mode=mode)
    restored = restoring.restore(
        reduced,
        restore,
        jpeg=read_jpeg(image, reduced, source.width / reduced.width),
        threads=threads,
    )
    kind = None
    if restored is not None:
        report(f"{image}: restored, because it is {restored}")
        reduced, kind = restored.image, Kind.LINE_ART
        source = source.converted(reduced.mode)
    write_image(resized, reduced)
    write_facts(facts, source, reduced, kind)
    if say_kind:
        kind, preset = SUITABLE[kind_in(read_facts(facts))]
        if named_preset:
            report(f"{image}: trained with preset={named_preset}, as requested")
        else:
            report(f"{image}: trained as {kind}; preset={preset} suits such images")


if __name__ == "__main__":
    run_job(
        main,
        lambda job: {
            "say_kind": job.wildcards.image == job.config.get("own_image"),
            "named_preset": job.config.get("named_preset"),
        },
    )
