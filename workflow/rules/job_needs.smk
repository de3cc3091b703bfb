# Inputs, params and resources of the jobs of tiles, batches, tables and classifiers.


from dataclasses import astuple

from neuralfield.tasks.classifier.labelled import find_files
from neuralfield.tasks.image.mosaic import TRAINED_TOGETHER


def given_resources(kind):
    """What --set-resources gives for rules of a kind, whose names are not known before."""
    given = workflow.resource_settings.overwrite_resources.get(kind, {})
    return {name: getattr(value, "raw", value) for name, value in given.items()}


def given_threads(kind):
    """What --set-threads gives for rules of a kind."""
    given = workflow.resource_settings.overwrite_threads.get(kind)
    return getattr(given, "raw", given)


def earlier_lists(job):
    """An input function for the lists of the segments that a job on tiles goes on from. It also lets
    the job run again whose tiles have lost files.
    """

    def lists(wildcards):
        if workflow.is_main_process:
            recovery.changed_tiles_again(workflow, logger.info, job)
        return job.lists_of(job.segment - 1) if job.segment > 1 else []

    return lists


def tiles_params(job):
    """The settings of a job on tiles. Snakemake does not compare those that ask for `input`: tiles
    may be divided among jobs in another way without being trained again.
    """
    return {
        "field": PLAN.field_settings(job.run),
        "training": PLAN.training_settings(job.first_tile),
        "execution": lambda wildcards, input: PLAN.execution_settings(job.first_tile, input),
        "work": lambda wildcards, input: {
            "image": job.run.image,
            "network": job.run.field,
            "tiles": [list(map(astuple, together)) for together in job.listed],
            "segment": job.segment,
        },
        "version": VERSION,
    }


def tiles_seconds(job):
    """The estimated time of a job on tiles."""
    return len(job.tiles) * longest_first(job.first_tile)


def tiles_resources(job):
    """The estimates for a job on tiles: the memory of those that are trained together, and read
    ahead, and the time of all.
    """
    network = (PLAN.image_of(job.first_tile), PLAN.network_of(job.run))
    gpus = gpus_of(job.run)
    return resources_of_several(
        job.kind,
        gpus,
        seconds=tiles_seconds(job),
        trained=[network] * len(job.tiles),
        in_memory=[network] * (2 * TRAINED_TOGETHER["gpu" if gpus else "cpu"]),
        on_gpu=[job.first_tile] * TRAINED_TOGETHER["gpu"],
    )


def resources_of_several(kind, gpus, *, seconds, trained, in_memory, on_gpu):
    """The estimates for a job that trains several networks, and what --set-resources gives for its
    kind: the time of those `trained`, and the memory of those at a time.
    """

    def gpu_memory_mb(wildcards):
        own = (training_gpu_memory_mb(run) - estimates.CUDA_MEMORY_MB for run in on_gpu)
        return gpus and estimates.CUDA_MEMORY_MB + sum(own)

    return {
        "gpu": lambda wildcards: 0 if shares_gpu(seconds) else gpus,
        "gpu_memory_mb": gpu_memory_mb,
        "mem_mb": lambda wildcards, threads: estimates.batch_memory_mb(in_memory, threads, gpus),
        "runtime": lambda wildcards, threads, attempt: estimates.batch_minutes(
            trained, threads, gpus, attempt
        ),
    } | given_resources(kind)


def batch_images(batch, file):
    """A file of each image that was put into a batch, except those that cannot be made any more."""
    files = {image: f"results/{image}/{file}" for image in batch.images}
    return [path for image, path in files.items() if image in PLAN.whole or Path(path).exists()]


def batch_networks(batch):
    """A function for the settings of a batch's networks.

    Snakemake does not compare them, because it asks for `input`: the name of a batch has a digest of
    all settings that count.
    """
    return lambda wildcards, input: [PLAN.network_of(run) for run in batch.runs]


def batch_resources(batch):
    """The estimates for all networks of a batch."""
    networks = [(PLAN.image_of(run), PLAN.network_of(run)) for run in batch.runs]
    return resources_of_several(
        "train_batch",
        gpus_of(batch.runs[0]),
        seconds=sum(map(longest_first, batch.runs)),
        trained=networks,
        in_memory=networks,
        on_gpu=batch.runs,
    )


def batch_threads(batch):
    """The threads of a training alone, or what --set-threads gives for batches."""
    return given_threads("train_batch") or training_threads(batch.runs[0])


def table_memory_mb(wildcards):
    return estimates.table_memory_mb(PLAN.network_of(wildcards), gpus_of(wildcards))


def table_sizes(table):
    """The metrics of a table that has several networks."""
    several = config["tables"][table]["sizes"]
    networks = PLAN.networks_of_table(table) if several else []
    return [f"results/tables/{network}/metrics.json" for network in networks]


def images_of(part):
    """An input function for the images of a part of a set."""
    return lambda wildcards: str(find_files(PLAN.network_of(wildcards)["path"], part)[0])


def labels_of(part):
    """An input function for the labels of a part of a set."""
    return lambda wildcards: str(find_files(PLAN.network_of(wildcards)["path"], part)[1])


def classifier_memory_mb(wildcards, threads):
    return estimates.classifier_memory_mb(PLAN.network_of(wildcards), threads, gpus_of(wildcards))


def classifier_minutes(wildcards, threads, attempt):
    return estimates.classifier_minutes(
        PLAN.network_of(wildcards), threads, gpus_of(wildcards), attempt
    )
