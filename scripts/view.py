"""Write the viewer page, which evaluates a network in the browser, on the viewer's GPU."""

from pathlib import Path

from entry.job import run_job
from neuralfield.images import read_made_image
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.files import write_atomically
from neuralfield.system.provenance import measured
from neuralfield.tasks.image.mosaic import load_trained
from neuralfield.training.history import read_history
from neuralfield.viewing.coded_page import coded_page
from neuralfield.viewing.viewer_page import viewer_page


def main(
    model: Path,
    resized: Path,
    comparison: Path,
    view: Path,
    *,
    image: str,
    field: str,
    checkpoints: Path | None = None,
    history: Path | None = None,
) -> None:
    """Write one HTML file that needs no other files and no internet access.

    The page of a coded image contains it, and decodes it. If `model` is a mosaic, `resized` is the
    reduced overview of the image. The redraw in `comparison` is shown until the network has been
    evaluated, or instead of it. An imported network has no `checkpoints` and `history`.
    """
    if model.suffix == ".nfz":
        write_atomically(view, coded_page(model.read_bytes(), image).encode())
        return
    page = viewer_page(
        load_trained(model),
        read_made_image(resized).values(),
        read_made_image(comparison / "redraw.png").values(),
        image=image,
        field=field,
        snapshots=list_snapshots(checkpoints) if checkpoints else (),
        history=read_history(history) if history else None,
        final_db=measured(model, "psnr_db"),
    )
    write_atomically(view, page.encode())


if __name__ == "__main__":
    run_job(main)
