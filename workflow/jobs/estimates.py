"""Upper bounds of the memory and time of jobs from their sizes, which a cluster needs in advance.

A job that gets too little is killed, so that the bounds are generous; benchmarks/job_requests.py
compares them with what jobs have used. Memory is in units of 10^6 bytes.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf, isqrt
from pathlib import Path
from typing import Any

from PIL import Image

from neuralfield.fields import FIELDS, FieldSettings, field_settings
from neuralfield.images.image import ImageShape
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.classifier.idx import read_idx_shape
from neuralfield.tasks.classifier.labelled import TRAINING, find_files
from neuralfield.tasks.image.presets import read_preset

Settings = Mapping[str, Any]

BASE_MEMORY_MB = 1000
"""Python and its packages, Snakemake in the same job on a cluster, and a small image."""

GPU_HOST_MEMORY_MB = 3000
"""Host memory of CuPy and CUDA; assumed, as are the next two."""

CUDA_MEMORY_MB = 1000
"""GPU memory of CuPy, CUDA and the kernels."""

RENDERING_GPU_MEMORY_MB = 6000
"""GPU memory of a band of a render."""

RENDERING_MEMORY_MB = 4000
"""A band of a render with its samples; a larger render has more bands, not larger ones."""

THREAD_MEMORY_MB = 60
"""Memory of each thread that works on a band of a large image, or on a tile."""

PIXEL_BYTES = 4 * 4 * 6
"""Bytes of a pixel: six copies in float32 of an image with four values per pixel."""

CODING_PIXEL_BYTES, CODING_S, CODING_GPU_S = 500, 4e-7, 5e-9
"""For each pixel of a coded image: memory in bytes, and seconds of a core or of a GPU in each step;
an H100 takes a tenth of these."""

VALUE_BYTES = 8 * 8
"""Bytes of each value of a layer: eight copies in float64 in the forward and backward passes."""

# sizes in the package, repeated because its modules take time to import; a test compares them
MOST_SHARDS = 32
CUDA_WIDTH = 512
CPU_BLOCK_POINTS, GPU_BLOCK_POINTS = 1 << 10, 1 << 18
CPU_BLOCK_VALUES = 1 << 20

WEIGHT_BYTES = 4 * (MOST_SHARDS + 8)
"""Bytes of a weight: moments, copies, and the gradients that threads compute separately."""

STEP_S_AND_FLOP_PER_S = {
    "cpu": (1e-3, 2e10),  # of a core
    "tape": (1e-2, 5e9),  # of a core
    "cuda": (1e-4, 4e12),
    "tape on a GPU": (1e-2, 2e12),
}
"""By engine the time of a step without any points, and a lower bound of the speed. The GPU that a
job gets is not known in advance; newer GPUs are many times faster."""

STARTING_MINUTES = 10
LONGEST_MINUTES = 7 * 24 * 60
UNKNOWN_SIDE_PX = 1024  # of an image whose size cannot be read
MOST_CLASSES = 256
CHANNELS = 3  # assumed of every image


def memory_mb(data_bytes: float, gpus: int = 0) -> int:
    """Return the memory of a job with this much data."""
    return BASE_MEMORY_MB + gpus * GPU_HOST_MEMORY_MB + ceil(data_bytes / 1e6)


@lru_cache
def source_pixels(path: str) -> int:
    """Return the pixels of an image file from its header, or a default if it cannot be read."""
    Image.MAX_IMAGE_PIXELS = None  # `max_megapixels` is enforced when images are read
    try:
        with Image.open(path) as image:  # not by libvips, which only jobs need
            return image.width * image.height
    except (OSError, ValueError):
        return UNKNOWN_SIDE_PX**2


def image_pixels(image: Settings) -> int:
    """Return the pixels of a training image, which is assumed square if only a side is known."""
    size = image.get("size")
    if size is None:
        return source_pixels(image["path"])
    return size[0] * size[1] if isinstance(size, list) else size**2


def network_of(field: Settings) -> FieldSettings:
    """Return the settings of a network that a config describes."""
    if field["type"] not in FIELDS:  # the file of imported weights may not exist yet
        field = read_preset("original")
    return field_settings({k: v for k, v in field.items() if k not in ("training", "output")})


def layer_weights(field: Settings) -> int:
    """Return the number of multiplications by weights for one point."""
    return sum(a * b for a, b in network_of(field).layer_shapes(CHANNELS))


def points_per_step(image: Settings, training: Settings) -> int:
    """Return how many points one training step evaluates."""
    pixels = min(training["batch_pixels"] or image_pixels(image), image_pixels(image))
    return pixels * (training["footprint_points"] if training["supervision"] == "footprint" else 1)


def field_bytes(image: Settings, field: Settings, points: int) -> int:
    """Return the memory of an image's training: for the image and its table, the weights, and for
    each layer's values at this number of points."""
    network, side = network_of(field), isqrt(image_pixels(image))
    shapes = network.weight_shapes(ImageShape(side, side, CHANNELS))
    weights = sum(a * b for a, b in shapes)
    values = points * network.working_values
    return 2 * PIXEL_BYTES * image_pixels(image) + VALUE_BYTES * values + WEIGHT_BYTES * weights


def field_memory_mb(image: Settings, field: Settings, number: int, threads: int, gpus: int) -> int:
    """Return the host memory of a number of trainings like this one, which share the threads."""
    points = 0 if gpus else max(1, threads // number) * CPU_BLOCK_POINTS
    return memory_mb(number * field_bytes(image, field, points), gpus)


def field_gpu_memory_mb(image: Settings, field: Settings, number: int) -> int:
    """Return the GPU memory of a number of trainings like this one, with all points of a step."""
    points = min(points_per_step(image, field["training"]), GPU_BLOCK_POINTS)
    return CUDA_MEMORY_MB + ceil(number * field_bytes(image, field, points) / 1e6)


def engine_of(field: Settings, gpus: int) -> str:
    """Return the engine that trains a network, if the GPU is new enough."""
    network, training = network_of(field), field["training"]
    has_kernels = network.has_kernels and training["precision"] != "float64"
    has_kernels = has_kernels and training["engine"] != "tape"
    if not gpus:
        return "cpu" if has_kernels else "tape"
    return "cuda" if has_kernels and max(network.sizes) <= CUDA_WIDTH else "tape on a GPU"


def field_s(image: Settings, field: Settings, threads: int, gpus: int) -> float:
    """Return the seconds of an image's training."""
    products = layer_weights(field) * points_per_step(image, field["training"])
    return training_s(products, field["training"], engine_of(field, gpus), threads)


def training_s(products: float, training: Settings, engine: str, threads: int) -> float:
    """Return the seconds of a training with this many multiplications by weights in a pass.

    A step has a forward pass, and a backward pass with twice as many; each is two operations.
    """
    if "budget" in training:
        return training["budget"]
    on_cores = engine in ("cpu", "tape")
    step_s, flop_per_s = STEP_S_AND_FLOP_PER_S[engine]
    step_s += 6 * products / (flop_per_s * (threads if on_cores else 1))
    limit_s = training.get("cpu_budget", inf) if on_cores else inf
    return min(training["steps"] * step_s, limit_s)


def rendering_s(pixels: float, field: Settings, threads: int, gpus: int) -> float:
    """Return the seconds of a render with 16 samples for each pixel."""
    _, flop_per_s = STEP_S_AND_FLOP_PER_S["tape on a GPU" if gpus else "tape"]
    return 32 * layer_weights(field) * pixels / (flop_per_s if gpus else flop_per_s * threads)


def minutes(work_s: float, training: Settings | None = None, attempt: int = 1) -> int:
    """Return the time that a job requests: more in each attempt, but no more than its time limit,
    at which a training exits by itself."""
    minutes = min(STARTING_MINUTES + ceil(work_s / 60), LONGEST_MINUTES)
    return ceil(min(attempt * minutes, (training or {}).get("time_limit_s", inf) / 60))


def table_work(table: Settings, threads: int) -> tuple[int, float]:
    """Return the bytes of a table's training, and its multiplications by weights in a pass.

    Each number in a CSV has a comma or a line end.
    """
    widths = table["network"]["widths"]
    sizes = (len(table["inputs"]), *widths, len(table["targets"]))
    weights = sum(a * b for a, b in pairwise(sizes))
    path = Path(table["path"])
    numbers = path.stat().st_size // 2 if path.exists() else 0
    rows = numbers // (sizes[0] + sizes[-1]) + 1
    values = numbers + threads * CPU_BLOCK_POINTS * sum(sizes)
    rows_per_step = min(table["training"]["batch_samples"] or rows, rows)
    return VALUE_BYTES * values + WEIGHT_BYTES * weights, weights * rows_per_step


def classifier_work(classifier: Settings, threads: int) -> tuple[int, float]:
    """Return the bytes of a classifier's training, and its multiplications in a pass."""
    network, training = classifier["network"], classifier["training"]
    try:
        count, height, width = read_idx_shape(find_files(classifier["path"], TRAINING)[0], 3)
    except (NeuralfieldError, OSError):  # its job reports that
        count, height, width = 1, 28, 28
    weights, products, places, channels = 0, 0, height * width, 1
    for number in network["channels"]:
        kernels = network["kernel"] ** 2 * channels * number
        weights, products = weights + kernels, products + places * kernels
        places, channels = places // network["pool"] ** 2 + 1, number
    dense = sum(a * b for a, b in pairwise((places * channels, *network["hidden"], MOST_CLASSES)))
    values = 4 * count * height * width // VALUE_BYTES + threads * CPU_BLOCK_VALUES
    images = min(training["batch_samples"] or count, count)
    return VALUE_BYTES * values + WEIGHT_BYTES * (weights + dense), (products + dense) * images
