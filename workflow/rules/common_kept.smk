# What is made again although Snakemake sees nothing missing, and what is trained although it is kept.

import os

from neuralfield.system.input_files import read_json
from neuralfield.system.kept import FOLDER_NAME, mark_to_train_anew
from neuralfield.tasks.training_settings import log_spaced_steps

ENLARGED = {"source.png", "redraw.png", "lanczos.png", "bicubic.png"}


def forced_by_the_user(job):
    """Whether the command line asks for a job anew: not because files are missing or incomplete."""
    settings, dag = workflow.dag_settings, workflow.dag
    named = set(map(str, settings.forcerun))
    if settings.forcetargets:
        named |= set(map(str, dag.targetfiles))
    return settings.forceall or job.rule in dag.forcerules or not named.isdisjoint(job.output)


def mark_forced_trainings():
    """Let trainings that are asked for anew take their steps, even if their results are kept."""
    for job in workflow.dag.needrun_jobs():
        if job.rule.name.startswith("train"):
            is_forced = forced_by_the_user(job)
            for folder in training_folders(job):
                mark_to_train_anew(folder / FOLDER_NAME, is_forced)


def training_folders(job):
    """Folders of the trainings that a job works on, by its outputs."""
    files = map(Path, job.output)
    return {
        file.parents[1] if file.parent.name == "segments" else file.parent
        for file in files
        if file.name == "model.safetensors" or file.parent.name == "segments"
    }


def incomplete_again(folders):
    """An input function that adds no file: it lets Snakemake make folders again that lost files.

    Snakemake itself sees only that a folder is there.
    """

    def input_function(wildcards):
        if all(trigger.name != "PARAMS" for trigger in workflow.rerun_triggers):
            return []  # the folders may have been made with other settings, and are to be used
        incomplete = {
            output
            for output, folder, names in folders()
            if Path(output).is_dir() and not names <= files_in(folder)
        }
        for folder in sorted(incomplete):
            logger.info(f"{folder} has lost files: it is made again.")
        workflow.dag.forcefiles.update(incomplete)
        return []

    return input_function


def files_in(folder):
    """Names in a folder; none where it is missing."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def network_folders():
    """Outputs of images' networks that are folders, each with a folder in it and names there."""
    for run in RUNS:
        folder = f"results/{run.image}/{run.field}"
        comparison = f"{folder}/comparison"
        yield comparison, comparison, compared_files(folder)
        if run.field in IMPORTED:
            continue
        training = config["fields"][run.field]["training"]
        tiles = tiles_of(run.image)
        yield checkpoint_folder(folder, training, "json" if tiles else "safetensors")
        for trained_folder in [f"{folder}/tiles/{tile}" for tile in tiles] or [folder]:
            if tiles:
                yield checkpoint_folder(trained_folder, training)
            yield from segment_folders(trained_folder, training)


def segment_folders(folder, training):
    """What the segments of a training leave for each other, as `network_folders`."""
    steps, count = training["steps"], training["segments"]
    for number in range(1, count):
        segment = f"{folder}/segments/{number}"
        yield segment, segment, {"state.safetensors", "snapshots"}
        yield segment, f"{segment}/snapshots", snapshot_names(training, steps * number // count)


def table_folders():
    """The same of tables."""
    for network, table in TABLE_NETWORKS.items():
        yield checkpoint_folder(f"results/tables/{network}", config["tables"][table]["training"])


def classifier_folders():
    """The same of classifiers."""
    for name, classifier in config["classifiers"].items():
        yield checkpoint_folder(f"results/classifiers/{name}", classifier["training"])


def checkpoint_folder(folder, training, suffix="safetensors"):
    """The checkpoints of a training, as `network_folders`."""
    checkpoints = f"{folder}/checkpoints"
    return checkpoints, checkpoints, snapshot_names(training, training["steps"], suffix)


def snapshot_names(training, until_step, suffix="safetensors"):
    """Names of the snapshots that a training takes up to a step."""
    steps = log_spaced_steps(training["steps"], training["snapshots"])
    return {f"step_{step:08d}.{suffix}" for step in steps if step <= until_step}


def compared_files(folder):
    """Images that an evaluation leaves: more where the source is larger than the training image."""
    if any(Path(folder, "comparison", name).exists() for name in ENLARGED - {"redraw.png"}):
        return ENLARGED
    try:
        is_enlarged = read_json(Path(folder, "metrics.json")).get("upscale_width") is not None
    except NeuralfieldError:  # missing or damaged: it is made again, or its readers say so
        is_enlarged = False
    return ENLARGED if is_enlarged else {"redraw.png"}
