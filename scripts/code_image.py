"""Code an image in few bits, and decode it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import neuralfield as nf
from entry.job import run_job
from entry.records import TRAINING_KEYS
from entry.training import ProgressLog
from neuralfield.api.image_tiles import is_usually_whole
from neuralfield.images import image_digest, read_facts, read_made_image, require_image
from neuralfield.system.errors import InputError
from neuralfield.system.files import link_or_copy, write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import sha256_of


def main(
    resized: Path,
    facts: Path,
    coded: Path,
    decoded: Path,
    history: Path,
    record: Path,
    checkpoints: Path,
    *,
    target: Mapping[str, float],
    training: Mapping[str, Any],
    log_path: Path | None = None,
    threads: int | None = None,
) -> None:
    """Write the file, the decoded image, and the history, record and snapshots of the training.

    `target` has one of bytes, bpp, psnr_db and lambda, and `training` the settings ``steps``,
    ``random_seed``, ``snapshots`` and ``device``. The training and its states are in a hidden
    folder beside the outputs, from which it is resumed.
    """
    about = read_facts(facts)
    image = read_made_image(resized, about["resized"]["mode"])
    require_image(resized, image_digest(image.values()), about, facts)
    if not is_usually_whole(image.width, image.height):
        # a training of each tile has its own history and networks
        found = f"{image.width:,} x {image.height:,} pixels"
        expected = "at most 16 megapixels, and sides of at most 65,536 pixels"
        remedy = "set a smaller size of the image, or code it with `neuralfield encode`"
        raise InputError(str(resized), found, expected, remedy)
    folder = coded.with_name(".kept")
    progress = ProgressLog(f"{coded.parts[-3]} / {coded.parts[-2]}", log_path)
    progress.file.steps = training["steps"]

    def report(row: Mapping[str, float]) -> None:
        progress.add_row(row)
        progress.file.update(int(row["step"]), row["seconds"])

    goal: dict[str, Any] = {key.replace("lambda", "lambda_"): n for key, n in target.items()}
    encoded = nf.encode(
        image.values(),
        **goal,
        steps=training["steps"],
        seed=training["random_seed"],
        snapshots=training["snapshots"],
        device=training["device"],
        threads=threads,
        folder=folder,
        callback=report,
    )
    encoded.save(coded)
    nf.decode(coded).save(decoded)
    shutil.copyfile(folder / "training/history.csv", history)
    for path in (folder / "training/checkpoints").iterdir():
        link_or_copy(path, checkpoints / path.name)
    own = read_json(folder / "training" / "training.json", TRAINING_KEYS)
    own["picture"] = about["resized"].get("digest")
    own["sha256"] = {path.name: sha256_of(path) for path in (coded, decoded, history)}
    write_json(record, own)


if __name__ == "__main__":
    run_job(main)
