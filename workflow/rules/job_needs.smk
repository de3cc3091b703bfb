# Inputs, params and resources of the jobs of batches, tables and classifiers.


from neuralfield.tasks.classifier.labelled import find_files


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
    """The estimates for all its networks, and what --set-resources gives for batches.

    Snakemake applies that to rules by their names, and those of batches are not known before.
    """
    networks = [(PLAN.image_of(run), PLAN.network_of(run)) for run in batch.runs]
    gpus = gpus_of(batch.runs[0])

    def exclusive_gpus(wildcards):
        return 0 if shares_gpu(sum(map(longest_first, batch.runs))) else gpus

    def gpu_memory_mb(wildcards):
        own = (training_gpu_memory_mb(run) - estimates.CUDA_MEMORY_MB for run in batch.runs)
        return gpus and estimates.CUDA_MEMORY_MB + sum(own)

    def memory_mb(wildcards, threads):
        return estimates.batch_memory_mb(networks, threads, gpus)

    def minutes(wildcards, threads, attempt):
        return estimates.batch_minutes(networks, threads, gpus, attempt)

    given = workflow.resource_settings.overwrite_resources.get("train_batch", {})
    given = {name: getattr(value, "raw", value) for name, value in given.items()}
    return {
        "gpu": exclusive_gpus,
        "gpu_memory_mb": gpu_memory_mb,
        "mem_mb": memory_mb,
        "runtime": minutes,
    } | given


def batch_threads(batch):
    """The threads of a training alone, or what --set-threads gives for batches."""
    given = workflow.resource_settings.overwrite_threads.get("train_batch")
    return getattr(given, "raw", given) or training_threads(batch.runs[0])


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
