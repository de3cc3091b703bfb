# What the rules of classifiers are written with.

from neuralfield.tasks.classifier.labelled import HELD_OUT, TAUGHT, find_files


def classifier_of(wildcards):
    """Settings of the classifier."""
    return config["classifiers"][wildcards.classifier]


def taught_pictures(wildcards):
    return str(find_files(classifier_of(wildcards)["path"], TAUGHT)[0])


def taught_labels(wildcards):
    return str(find_files(classifier_of(wildcards)["path"], TAUGHT)[1])


def held_out_pictures(wildcards):
    return str(find_files(classifier_of(wildcards)["path"], HELD_OUT)[0])


def held_out_labels(wildcards):
    return str(find_files(classifier_of(wildcards)["path"], HELD_OUT)[1])


def classifier_training(wildcards):
    """How it is trained, without what makes no difference to the result."""
    training = classifier_of(wildcards)["training"]
    return {
        key: value
        for key, value in training.items()
        if key not in configuration.MAKES_NO_DIFFERENCE
    }


def classifier_threads(wildcards):
    """What the settings say, or else a fair share of the cores."""
    threads = classifier_of(wildcards)["training"].get("threads")
    if threads:
        return threads
    cores = workflow.resource_settings.cores
    if workflow.remote_exec:  # a job of a cluster: it has been given its share
        return cores
    return max(1, cores // len(config["classifiers"])) if cores else CORES_ON_A_CLUSTER


def classifier_gpus(wildcards):
    device = classifier_of(wildcards)["training"]["device"]
    return int(device == "gpu" or (device == "auto" and gpu_is_present()))


def classifier_memory_mb(wildcards, threads):
    return estimates.classifier_memory_mb(
        classifier_of(wildcards), threads, classifier_gpus(wildcards)
    )


def classifier_minutes(wildcards, threads, attempt):
    return estimates.classifier_minutes(
        classifier_of(wildcards), threads, classifier_gpus(wildcards), attempt
    )


CLASSIFIER_PRODUCTS = (
    *("model.safetensors", "history.csv", "training.json", "checkpoints"),
    *("metrics.json", "predictions.csv", "confusion.png", "wrong.png", "curve.png"),
)


def every_classifier(pattern, **others):
    """Names of files, one for each classifier; there has to be one."""

    def names(wildcards):
        if not config["classifiers"]:
            raise startup.UserError(
                "config.yaml: classifiers: missing; expected at least one set of pictures; add"
                " one, as docs/classifier.md shows"
            )
        return expand(pattern, classifier=config["classifiers"], **others)

    return names
