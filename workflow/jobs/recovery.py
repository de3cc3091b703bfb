"""Results that are made again although Snakemake sees no reason, and saved training states."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jobs.plan import Contents
from jobs.tile_job import TileJob
from neuralfield.system.kept import FOLDER_NAME, mark_to_train_anew
from neuralfield.system.kept_renders import forget_kept
from neuralfield.tasks.image.tile_files import changes_since

_MOST_LINES = 2
"""Maximum number of incomplete folders that have a line each."""


def incomplete_again(
    workflow: Any, log: Callable[[str], None], contents: Callable[[], Iterable[Contents]]
) -> Callable[[Any], list[str]]:
    """Return an input function without files that forces the jobs of folders with missing files.

    Snakemake itself only checks that an output folder exists.
    """

    def input_function(wildcards: Any) -> list[str]:
        if all(trigger.name != "PARAMS" for trigger in workflow.rerun_triggers):
            return []  # the user accepts folders that were made with other settings
        incomplete = {
            output
            for output, folder, names in contents()
            if Path(output).is_dir() and not names <= _files_in(folder)
        }
        if len(incomplete) > _MOST_LINES:
            log(
                f"{min(incomplete)} and {len(incomplete) - 1:,} other folders lack files that the"
                " current settings require: they are created again."
            )
        else:
            for folder in sorted(incomplete):
                log(f"{folder} lacks files that the current settings require: it is created again.")
        workflow.dag.forcefiles.update(incomplete)
        return []

    return input_function


def changed_tiles_again(workflow: Any, log: Callable[[str], None], job: TileJob) -> None:
    """Force a job on tiles if files differ from its lists: Snakemake only checks the lists."""
    for listed, path in zip(job.listed, job.lists, strict=True):
        is_made = path not in workflow.dag.forcefiles and Path(path).exists()
        if is_made and (changes := list(changes_since(Path(path), listed))):
            others = f", and {len(changes) - 1} others" if changes[1:] else ""
            log(f"{changes[0]}{others}: the tiles are published again.")
            workflow.dag.forcefiles.add(path)


def is_forced_by_the_user(workflow: Any, job: Any) -> bool:
    """Return whether the command line forces a job, which otherwise runs because of its files."""
    settings, dag = workflow.dag_settings, workflow.dag
    named = set(map(str, settings.forcerun))
    if settings.forcetargets:
        named |= set(map(str, dag.targetfiles))
    return settings.forceall or job.rule in dag.forcerules or not named.isdisjoint(job.output)


def mark_forced_trainings(workflow: Any, tile_jobs: Mapping[str, TileJob]) -> None:
    """Mark forced trainings, so that they run again even if their earlier results were kept.

    `tile_jobs` are the jobs on tiles, by the names of their rules.
    """
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("train"):
            is_forced = is_forced_by_the_user(workflow, job)
            on_tiles = tile_jobs.get(job.rule.name)
            models = [Path(path) for path in job.output if path.endswith("model.safetensors")]
            for folder in on_tiles.folders if on_tiles else [path.parent for path in models]:
                mark_to_train_anew(Path(folder, FOLDER_NAME), is_forced)


def forget_forced_renders(workflow: Any) -> None:
    """Forget the kept copies of forced renders, so that they are rendered again."""
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("render") and is_forced_by_the_user(workflow, job):
            forget_kept(Path(job.output[0]).parent)


def forget_states(folders: Iterable[str]) -> None:
    """Remove the saved states of finished trainings, but not their kept results."""
    for folder in map(Path, folders):
        if (folder / "model.safetensors").exists():
            shutil.rmtree(folder / ".state", ignore_errors=True)


def _files_in(folder: str) -> set[str]:
    """Return the names in a folder; empty if it is missing."""
    try:
        return {path.name for path in Path(folder).iterdir()}
    except OSError:
        return set()
