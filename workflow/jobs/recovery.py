"""Results that are made again although Snakemake sees no reason."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs.manifest import NAME
from jobs.tile_job import TileJob
from neuralfield.images.tiling import Tile
from neuralfield.system.copies import FOLDER_NAME, TRAINING, mark_to_make_anew
from neuralfield.system.errors import InputError
from neuralfield.system.ledger import Entry, differences, read_ledger


def incomplete_again(
    workflow: Any, log: Callable[[str], None], products: Callable[[], Iterable[str]]
) -> Callable[[Any], list[str]]:
    """Return an input function without files that forces the jobs of folders with missing files.

    Snakemake itself only checks that an output folder exists. The manifest has the files that were
    in it.
    """

    def input_function(wildcards: Any) -> list[str]:
        if not Path("results", NAME).exists():
            return []
        with contextlib.suppress(InputError):  # reported when it is written again
            entries = read_ledger(Path("results", NAME))
            incomplete = [path for path in products() if _lacks_files(Path(path), entries)]
            if incomplete:
                others = f", and {len(incomplete) - 1:,} other folders" if incomplete[1:] else ""
                log(f"{incomplete[0]}{others}: made again, because files are missing in it.")
            workflow.dag.forcefiles.update(incomplete)
        return []

    return input_function


def _lacks_files(output: Path, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(output.relative_to("results").as_posix())
    return (
        entry is not None
        and output.is_dir()
        and not all((output / name).exists() for name in entry.files)
    )


def changed_tiles_again(workflow: Any, log: Callable[[str], None], job: TileJob) -> None:
    """Force a job on tiles if files differ from its lists: Snakemake only checks the lists."""
    for tiles, path in zip(job.listed, job.lists, strict=True):
        is_made = path not in workflow.dag.forcefiles and Path(path).exists()
        if is_made and (changes := list(_changes(Path(path), tiles))):
            others = f", and {len(changes) - 1} others" if changes[1:] else ""
            log(f"{changes[0]}{others}; the tiles are published again.")
            workflow.dag.forcefiles.add(path)


def _changes(path: Path, tiles: Iterable[Tile]) -> Iterator[str]:
    """Yield descriptions of files of tiles, beside their list, that differ from the list."""
    try:
        entries, made_at_ns = read_ledger(path), path.stat().st_mtime_ns
    except (InputError, OSError) as error:
        yield str(error)
        return
    if list(entries) != [tile.name for tile in tiles]:
        yield f"{path}: is the list of other tiles"
    for name, entry in entries.items():
        for file, found in differences(path.parent / name, entry, made_at_ns):
            yield f"{file}: {found}"


def is_forced_by_the_user(workflow: Any, job: Any) -> bool:
    """Return whether the command line forces a job, which otherwise runs because of its files."""
    settings, dag = workflow.dag_settings, workflow.dag
    named = set(map(str, settings.forcerun))
    if settings.forcetargets:
        named |= set(map(str, dag.targetfiles))
    return settings.forceall or job.rule in dag.forcerules or not named.isdisjoint(job.output)


def mark_forced_jobs(workflow: Any, tile_jobs: Mapping[str, TileJob]) -> None:
    """Mark results of forced trainings and renders, so that they are made and not restored.

    `tile_jobs` are the jobs on tiles, by the names of their rules.
    """
    for job in workflow.dag.needrun_jobs():
        is_forced = is_forced_by_the_user(workflow, job)
        paths = list(map(Path, job.output))
        results: list[tuple[Path, str]] = []
        if job.rule.name.startswith("render"):
            results = [(path.parent, path.name) for path in paths]
        elif on_tiles := tile_jobs.get(job.rule.name):
            results = [(Path(folder), TRAINING) for folder in on_tiles.folders]
        elif job.rule.name.startswith("train"):
            models = [path for path in paths if path.name == "model.safetensors"]
            results = [(path.parent, TRAINING) for path in models]
        for folder, name in results:
            mark_to_make_anew(folder / FOLDER_NAME, name, is_forced)
