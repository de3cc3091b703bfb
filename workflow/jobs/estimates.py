"""Estimates of the memory and time of jobs from their sizes, which a cluster needs in advance."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf, isqrt
from pathlib import Path
from typing import Any

from PIL import Image

from neuralfield.engines.cpu.cut import MOST_SHARDS
from neuralfield.engines.cuda.portable.layer_forward import MAX_WIDTH
from neuralfield.fields import FieldSettings, field_settings
from neuralfield.images import Header
from neuralfield.images.image import ImageShape
from neuralfield.system.errors import ConfigError, NeuralfieldError
from neuralfield.tasks.classifier.classifier_objective import BLOCK_IMAGES, BLOCK_VALUES
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.idx import read_idx_shape
from neuralfield.tasks.classifier.labelled import TRAINING, find_files
from neuralfield.tasks.image.image_objective import BLOCK_POINTS
from neuralfield.tasks.image.presets import read_preset
from neuralfield.tasks.table.table_objective import BLOCK_ROWS

BASE_MEMORY_MB = 1000
"""Memory of Python and its packages, of Snakemake in the same job on a cluster, and of a small
image."""

GPU_MEMORY_MB = 3000
"""Host memory that CuPy and CUDA are assumed to take; a cluster is not asked for GPU memory."""

CUDA_MEMORY_MB = 1000
"""GPU memory that CuPy, CUDA and the kernels are assumed to take."""

RENDERING_GPU_MEMORY_MB = 6000
"""GPU memory that a band of a render is assumed to take."""

THREAD_MEMORY_MB = 60
"""Memory per thread for a band of a large image, or for the network of a tile, and the arrays that
the thread computes from it."""

RENDERING_MEMORY_MB = 4000
"""Memory for a band of a render with its samples; a larger render has more bands, not larger ones.
"""

BYTES_PER_VALUE = 8 * 4
"""Bytes for each value of a layer's output: 8 copies in float32, which the forward and backward
passes make."""

UNKNOWN_SIDE_PX = 1024
"""Side that is assumed for an image whose size cannot be read."""

CORE_FLOP_PER_S = {"cpu": 2e10, "tape": 5e9}
"""Lower bounds of a core's speed by engine: a job that takes longer than expected is worse than one
that takes less time."""

GPU_FLOP_PER_S = {"cuda": 4e12, "tape": 2e12}
"""Assumed lower bounds of a GPU's speed by engine: the GPU that a job gets is not known in advance.
Newer GPUs are many times faster."""

GPU_STEP_S = {"cuda": 1e-4, "tape": 1e-2}
"""Assumed minimum time of a step by engine, which is needed to launch its kernels."""

_CHANNELS = 3
"""Channels that are assumed of an image."""

_ASSUMED_CLASSES = 256
"""Assumed number of classes of a classifier: the maximum."""

STARTING_MINUTES = 10
LONGEST_MINUTES = 7 * 24 * 60

Settings = Mapping[str, Any]


def network(field: Settings) -> FieldSettings:
    """Return the settings of a network that a config describes."""
    if field["type"] == "imported":  # its file may not exist yet
        field = read_preset("original")
    return field_settings({k: v for k, v in field.items() if k not in ("training", "output")})


def weight_count(field: Settings) -> int:
    """Return the number of multiplications by weights in a network's forward pass for one point."""
    return sum(a * b for a, b in network(field).layer_shapes(_CHANNELS))


def encoding_bytes(image: Settings, field: Settings) -> int:
    """Return the bytes of an encoding's features, their gradients and the optimizer's moments."""
    side = isqrt(image_points(image))
    shapes = network(field).encoding_shapes(ImageShape(side, side, _CHANNELS))
    return 6 * 8 * sum(a * b for a, b in shapes)


def image_points(image: Settings) -> int:
    """Return the pixels of a training image, which is assumed square if only a side is known."""
    size = image.get("size")
    if size is None:
        return source_points(image["path"])
    return size[0] * size[1] if isinstance(size, list) else size**2


@lru_cache
def source_points(path: str) -> int:
    """Return the pixels of an image file from its header, or a default if it cannot be read."""
    Image.MAX_IMAGE_PIXELS = None  # `max_megapixels` is enforced when images are read
    try:
        with Image.open(path) as image:
            return image.width * image.height
    except (OSError, ValueError):
        return UNKNOWN_SIDE_PX**2


def source_memory_mb(image: Settings, max_megapixels: float) -> int:
    """Return the memory to read an image file; an image above the limit is not decoded."""
    return image_memory_mb(int(min(source_points(image["path"]), 1e6 * max_megapixels)))


def points_per_step(image: Settings, training: Settings) -> int:
    """Return how many points one training step evaluates."""
    pixels = min(training["batch_pixels"] or image_points(image), image_points(image))
    return pixels * (training["footprint_points"] if training["supervision"] == "footprint" else 1)


def training_memory_mb(image: Settings, field: Settings, threads: int, gpus: int) -> int:
    """Return the host memory of a training.

    This is the memory of the image as a table and, without a GPU, of every layer's values for the
    points that each thread evaluates.
    """
    table = image_memory_mb(2 * image_points(image)) + ceil(encoding_bytes(image, field) / 1e6)
    if gpus:
        return table + GPU_MEMORY_MB
    points = min(points_per_step(image, field["training"]), threads * BLOCK_POINTS["cpu"])
    wide = 2 if field["training"]["precision"] == "float64" else 1
    layers = points * network(field).working_values * BYTES_PER_VALUE * wide
    weights = weight_count(field)
    gradients = MOST_SHARDS * 4 * weights if cpu_engine(field) == "cpu" else 0
    return table + ceil((layers + gradients) / 1e6)


def training_gpu_memory_mb(image: Settings, field: Settings) -> int:
    """Return the GPU memory of a training: for the image, and for every layer's values."""
    points = min(points_per_step(image, field["training"]), BLOCK_POINTS["gpu"])
    wide = 2 if field["training"]["precision"] == "float64" else 1
    layers = points * network(field).working_values * BYTES_PER_VALUE * wide
    own = layers + encoding_bytes(image, field) + 24 * image_points(image)
    return CUDA_MEMORY_MB + ceil(own / 1e6)


def cpu_engine(field: Settings) -> str:
    """Return the engine that will train a network on a processor."""
    return "cpu" if _has_kernels(field) else "tape"


def gpu_engine(field: Settings) -> str:
    """Return the engine that will train a network on a GPU, if the GPU is new enough."""
    fits = max(network(field).sizes) <= MAX_WIDTH
    return "cuda" if fits and _has_kernels(field) else "tape"


def _has_kernels(field: Settings) -> bool:
    """Return whether engines with kernels cover a network and its training, and may be used."""
    training = field["training"]
    may_use_kernels = training["precision"] != "float64" and training["engine"] != "tape"
    return network(field).has_kernels and may_use_kernels


def batch_minutes(
    networks: Sequence[tuple[Settings, Settings]], threads: int, gpus: int, attempt: int = 1
) -> int:
    """Return the time of several trainings in one job, each given by its image and network.

    The trainings are assumed to run one after another. Each step has three matrix products for each
    layer and point: one in the forward pass, and two in the backward pass.
    """
    work_s = sum(training_s(image, field, threads, gpus) for image, field in networks)
    return minutes(work_s, networks[0][1]["training"], attempt)


def minutes(work_s: float, training: Settings, attempt: int = 1) -> int:
    """Return the time that a training requests.

    The time grows with each attempt, because a cluster stops a job that takes longer than it
    requested. It never exceeds the limit in the settings, at which the training exits by itself.
    """
    minutes = min(STARTING_MINUTES + ceil(work_s / 60), LONGEST_MINUTES)
    return ceil(min(attempt * minutes, training.get("time_limit_s", inf) / 60))


def batch_memory_mb(networks: Sequence[tuple[Settings, Settings]], threads: int, gpus: int) -> int:
    """Return the memory of simultaneous trainings in one job, with Python's memory counted once."""
    common = BASE_MEMORY_MB + (GPU_MEMORY_MB if gpus else 0)
    own_threads = max(1, threads // len(networks))
    own = (
        training_memory_mb(image, field, own_threads, gpus) - common for image, field in networks
    )
    return common + sum(own)


def training_s(image: Settings, field: Settings, threads: int, gpus: int) -> float:
    """Return the time of the steps of a training."""
    training = field["training"]
    if "budget" in training:
        return training["budget"]
    weights = weight_count(field)
    step_flop = 6 * weights * points_per_step(image, training)
    if gpus:
        engine = gpu_engine(field)
        step_s = GPU_STEP_S[engine] + step_flop / GPU_FLOP_PER_S[engine]
    else:
        step_s = step_flop / (CORE_FLOP_PER_S[cpu_engine(field)] * threads)
    work_s = training["steps"] * step_s
    if not gpus:
        work_s = min(work_s, training.get("cpu_budget", inf))
    return work_s


def table_weights(table: Settings) -> int:
    """Return the number of weights of a table's network, without its biases."""
    sizes = (len(table["inputs"]), *table["network"]["widths"], len(table["targets"]))
    return sum(a * b for a, b in pairwise(sizes))


def table_numbers(table: Settings) -> int:
    """Return an upper bound of the numbers in a CSV: each is followed by a comma or a line end."""
    try:
        return Path(table["path"]).stat().st_size // 2
    except OSError:
        return 0


def table_memory_mb(table: Settings, gpus: int) -> int:
    """Return the memory of a table's training: copies of its numbers, and optimizer moments."""
    layers = max(table["network"]["widths"], default=1) * (len(table["network"]["widths"]) + 1)
    values = 8 * table_numbers(table) + 8 * table_weights(table)
    values += table["training"]["threads"] * BLOCK_ROWS["cpu"] * layers * 4
    return BASE_MEMORY_MB + gpus * GPU_MEMORY_MB + ceil(8 * values / 1e6)


def table_training_s(table: Settings) -> float:
    """Return the seconds of the steps of a table's training with the engine "tape"."""
    training = table["training"]
    rows = table_numbers(table) // (len(table["inputs"]) + len(table["targets"])) + 1
    rows = min(training["batch_samples"] or rows, rows)
    flop_per_s = CORE_FLOP_PER_S["tape"] * training["threads"]
    step_s = GPU_STEP_S["tape"] + 6 * table_weights(table) * rows / flop_per_s
    return training["steps"] * step_s


def classifier_header(classifier: Settings) -> tuple[int, ImageShape]:
    """Return the number of training images and their size from the file's header.

    One image of 28 x 28 pixels is assumed if the header cannot be read.
    """
    try:
        count, height, width = read_idx_shape(find_files(classifier["path"], TRAINING)[0], 3)
    except (NeuralfieldError, OSError):
        return 1, ImageShape(28, 28, 1)
    return count, ImageShape(width, height, 1)


def classifier_memory_mb(classifier: Settings, threads: int, gpus: int) -> int:
    """Return the memory of a classifier's training: for its images, and for a tape per thread."""
    count, shape = classifier_header(classifier)
    network = ConvolutionalClassifier.from_mapping(classifier["network"])
    try:
        weights = sum(a * b for a, b in network.weight_shapes(shape, _ASSUMED_CLASSES))
        values = network.working_values(shape)
    except ConfigError:  # its job reports that
        return BASE_MEMORY_MB
    block = max(1, min(BLOCK_IMAGES["cpu"], BLOCK_VALUES["cpu"] // values))
    images = 4 * count * shape.width * shape.height
    tape = threads * block * values * BYTES_PER_VALUE
    return BASE_MEMORY_MB + gpus * GPU_MEMORY_MB + ceil((images + tape + 64 * weights) / 1e6)


def classifier_training_s(classifier: Settings, threads: int, gpus: int) -> float:
    """Return the seconds of a classifier's steps; a kernel is multiplied at every position."""
    count, shape = classifier_header(classifier)
    network, training = classifier["network"], classifier["training"]
    places, channels, products = shape.width * shape.height, 1, 0
    for number in network["channels"]:
        products += places * network["kernel"] ** 2 * channels * number
        places, channels = places // network["pool"] ** 2 + 1, number
    products += places * channels * max(network["hidden"], default=1)
    images = min(training["batch_samples"] or count, count)
    flop_per_s = GPU_FLOP_PER_S["tape"] if gpus else CORE_FLOP_PER_S["tape"] * threads
    step_s = GPU_STEP_S["tape"] + 6 * products * images / flop_per_s
    return training["steps"] * step_s


def rendering_s(points: float, field: Settings, threads: int, gpus: int) -> float:
    """Return the seconds of a render: a product for each layer and sample, 16 samples per pixel."""
    flop_per_s = GPU_FLOP_PER_S["tape"] if gpus else CORE_FLOP_PER_S["tape"] * threads
    return 32 * weight_count(field) * points / flop_per_s


def image_memory_mb(points: int) -> int:
    """Return the memory of six copies of an image in float32, with four values per pixel."""
    return BASE_MEMORY_MB + ceil(points * 4 * 4 * 6 / 1e6)


def unpacking_memory_mb(header: Header, threads: int) -> int:
    """Return the memory of bands of a large image, or of all of it if rows are not in order."""
    points = 0 if header.row_by_row else header.width * header.height
    return BASE_MEMORY_MB + THREAD_MEMORY_MB * threads + ceil(points * 8 / 1e6)
