"""Results that are made again although nothing seems to be missing, and states of trainings."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jobs.plan import Contents
from jobs.tile_job import TileJob
from neuralfield.system.kept import FOLDER_NAME, mark_to_train_anew
from neuralfield.system.kept_renders import forget_kept
from neuralfield.tasks.image.tile_files import changes_since


def incomplete_again(
    workflow: Any, log: Callable[[str], None], contents: Callable[[], Iterable[Contents]]
) -> Callable[[Any], list[str]]:
    """Return an input function that adds no file: it forces folders that have lost files.

    Snakemake itself sees only that a folder is there.
    """

    def input_function(wildcards: Any) -> list[str]:
        if all(trigger.name != "PARAMS" for trigger in workflow.rerun_triggers):
            return []  # the folders may have been made with other settings, and are to be used
        incomplete = {
            output
            for output, folder, names in contents()
            if Path(output).is_dir() and not names <= _files_in(folder)
        }
        for folder in sorted(incomplete):
            log(f"{folder} lacks files that the settings ask for: it is made again.")
        workflow.dag.forcefiles.update(incomplete)
        return []

    return input_function


def changed_tiles_again(workflow: Any, log: Callable[[str], None], job: TileJob) -> None:
    """Force a job on tiles whose files are not as it has listed them: Snakemake sees the lists."""
    for listed, path in zip(job.listed, job.lists, strict=True):
        is_made = path not in workflow.dag.forcefiles and Path(path).exists()
        if is_made and (changes := list(changes_since(Path(path), listed))):
            others = f", and {len(changes) - 1} others" if changes[1:] else ""
            log(f"{changes[0]}{others}: the tiles are published again.")
            workflow.dag.forcefiles.add(path)


def mark_forced_trainings(workflow: Any, tile_jobs: Mapping[str, TileJob]) -> None:
    """Let trainings that are asked for anew take their steps, even if their results are kept.

    `tile_jobs` are those on tiles, by the names of their rules.
    """
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("train"):
            is_forced = _is_forced_by_the_user(workflow, job)
            on_tiles = tile_jobs.get(job.rule.name)
            for folder in on_tiles.folders if on_tiles else _training_folders(job):
                mark_to_train_anew(Path(folder, FOLDER_NAME), is_forced)


def forget_forced_renders(workflow: Any) -> None:
    """Let renders that are asked for anew be rendered, even where they are there already."""
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("render") and _is_forced_by_the_user(workflow, job):
            forget_kept(Path(job.output[0]).parent)


def forget_states(folders: Iterable[str]) -> None:
    """Remove the states of trainings that are finished; their results stay kept."""
    for folder in map(Path, folders):
        if (folder / "model.safetensors").exists():
            shutil.rmtree(folder / ".state", ignore_errors=True)


def _is_forced_by_the_user(workflow: Any, job: Any) -> bool:
    """Return whether the command line asks for a job anew, and not missing or incomplete files."""
    settings, dag = workflow.dag_settings, workflow.dag
    named = set(map(str, settings.forcerun))
    if settings.forcetargets:
        named |= set(map(str, dag.targetfiles))
    return settings.forceall or job.rule in dag.forcerules or not named.isdisjoint(job.output)


def _training_folders(job: Any) -> set[Path]:
    """Return the folders of the trainings that a job works on."""
    files = map(Path, job.output)
    return {
        file.parents[1] if file.parent.name == "segments" else file.parent
        for file in files
        if file.name == "model.safetensors" or file.parent.name == "segments"
    }


def _files_in(folder: str) -> set[str]:
    """Return the names in a folder; none where it is missing."""
    try:
        return {path.name for path in Path(folder).iterdir()}
    except OSError:
        return set()
