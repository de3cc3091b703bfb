"""The cores, GPUs, memory and time that the jobs of a plan request."""

from collections.abc import Callable, Sequence
from typing import Any

from jobs import estimates
from jobs.batches import Batch
from jobs.plan import Plan, Settings
from jobs.tile_job import TileJob
from neuralfield.system.device import gpu_is_present
from neuralfield.tasks.image.mosaic import TRAINED_TOGETHER

CORES_ON_A_CLUSTER = 2
"""Cores that a job requests if neither the settings nor --cores set a number."""

SHORT_JOB_S = 60
"""Estimated seconds from which on a training has its GPU for itself."""

Resources = dict[str, Any]


class Needs:
    """Functions for the threads, priorities and resources of rules.

    Their arguments are those that Snakemake passes; an `ImageNetwork` may take the place of
    wildcards. `cores` is the number that ``--cores`` sets; None where jobs are only submitted to a
    cluster.
    """

    def __init__(self, plan: Plan, batches: Sequence[Batch], cores: int | None) -> None:
        self.plan, self.cores = plan, cores
        # jobs that train networks of images
        self._trainings = sum(run.image not in plan.tiled for run in plan.trained_runs(plan.runs))
        self._trainings += len(plan.tile_jobs)
        self._trainings -= sum(len(batch.runs) - 1 for batch in batches)
        self.table_training = self._of_samples(estimates.table_work)
        self.classifier_training = self._of_samples(estimates.classifier_work)

    def gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs that a job on this network uses."""
        device = self.plan.device_of(wildcards)
        return int(device == "gpu" or (device == "auto" and gpu_is_present()))

    def exclusive_gpus(self, wildcards: Any, seconds: float = 0) -> int:
        """Return the number of GPUs that a job has for itself: none if it is short.

        Short jobs share GPUs; on a cluster, which gives a GPU to one job, no job does.
        """
        is_shared = self.cores and seconds < SHORT_JOB_S and not self.plan.config["gpu_exclusive"]
        return 0 if is_shared else self.gpus(wildcards)

    def all_cores(self, wildcards: Any = None) -> int:
        return self.cores or CORES_ON_A_CLUSTER

    def training_threads(self, wildcards: Any) -> int:
        """Return the number of threads in the settings, or else an equal share of the cores."""
        is_classifier = hasattr(wildcards, "classifier")
        jobs = len(self.plan.config["classifiers"]) if is_classifier else self._trainings
        threads = self.plan.network_of(wildcards)["training"].get("threads")
        return threads or self._share_of_cores(jobs)

    def rendering_threads(self, wildcards: Any) -> int:
        """Return a share of the cores: a job renders, one evaluates, and one makes a time-lapse."""
        return self._share_of_cores(3 * len(self.plan.runs))

    def _share_of_cores(self, jobs: int) -> int:
        return max(1, self.cores // max(1, jobs)) if self.cores else CORES_ON_A_CLUSTER

    def image_memory_mb(self, wildcards: Any) -> int:
        pixels = estimates.image_pixels(self.plan.image_of(wildcards))
        return estimates.memory_mb(estimates.PIXEL_BYTES * pixels)

    def timelapse_memory_mb(self, wildcards: Any) -> int:
        """Return the memory of all frames, and of an image that is read as a whole."""
        settings = self.plan.config["timelapse"]
        pixels = settings["frames"] * settings["size"] ** 2
        if wildcards.image not in self.plan.tiled:
            pixels += estimates.image_pixels(self.plan.image_of(wildcards))
        return estimates.memory_mb(estimates.PIXEL_BYTES * pixels)

    def source_memory_mb(self, wildcards: Any) -> int:
        """Return the memory to read an image file; an image above the limit is not decoded."""
        pixels = estimates.source_pixels(self.plan.image_of(wildcards)["path"])
        most_pixels = 1e6 * self.plan.config["max_megapixels"]
        return estimates.memory_mb(estimates.PIXEL_BYTES * min(pixels, most_pixels))

    def field_s(self, wildcards: Any, threads: int = 1) -> float:
        """Return the seconds of an image's training; its priority, so that the longest is first."""
        return estimates.field_s(*self._network(wildcards), threads, self.gpus(wildcards))

    def coding_s(self, wildcards: Any, threads: int = 1) -> float:
        """Return the seconds in which an image is coded in few bits."""
        image, field = self._network(wildcards)
        pixels = field["training"]["steps"] * estimates.image_pixels(image)
        gpus = self.gpus(wildcards)
        return pixels * (estimates.CODING_GPU_S if gpus else estimates.CODING_S / threads)

    def coding(self) -> Resources:
        """Return the resources of a rule that codes an image in few bits."""

        def mem_mb(wildcards: Any) -> int:
            pixels = estimates.image_pixels(self.plan.image_of(wildcards))
            return estimates.memory_mb(estimates.CODING_PIXEL_BYTES * pixels, self.gpus(wildcards))

        def runtime(wildcards: Any, threads: int, attempt: int) -> int:
            return estimates.minutes(self.coding_s(wildcards, threads), attempt=attempt)

        return {
            "gpu": lambda wildcards: self.exclusive_gpus(wildcards, self.coding_s(wildcards)),
            "gpu_memory_mb": lambda wildcards: self.gpus(wildcards) * mem_mb(wildcards),
            "mem_mb": mem_mb,
            "runtime": runtime,
        }

    def _network(self, wildcards: Any) -> tuple[Settings, Settings]:
        return self.plan.image_of(wildcards), self.plan.network_of(wildcards)

    def tiled_memory_mb(self, wildcards: Any, threads: int) -> int:
        """Return the memory of bands of a large image, or of all of it if rows are not in order."""
        header, _ = self.plan.tiled[wildcards.image]
        pixels = 0 if header.row_by_row else header.width * header.height
        return estimates.memory_mb(8 * pixels) + estimates.THREAD_MEMORY_MB * threads

    def training(self, run: Any = None, number: int = 1, at_once: int = 0) -> Resources:
        """Return the resources of a job that trains an image, by default the one of its wildcards,
        or a number of images like it, of which some are in memory at once; by default all."""
        together = at_once or number

        def seconds(wildcards: Any, threads: int = 1) -> float:
            return number * self.field_s(run or wildcards, threads)

        def gpu_memory_mb(wildcards: Any) -> int:
            own_mb = estimates.field_gpu_memory_mb(*self._network(run or wildcards), together)
            return self.gpus(run or wildcards) * own_mb

        def mem_mb(wildcards: Any, threads: int) -> int:
            network, gpus = self._network(run or wildcards), self.gpus(run or wildcards)
            return estimates.field_memory_mb(*network, together, threads, gpus)

        def runtime(wildcards: Any, threads: int, attempt: int) -> int:
            training = self.plan.network_of(run or wildcards)["training"]
            return estimates.minutes(seconds(wildcards, threads), training, attempt)

        return {
            "gpu": lambda wildcards: self.exclusive_gpus(run or wildcards, seconds(wildcards)),
            "gpu_memory_mb": gpu_memory_mb,
            "mem_mb": mem_mb,
            "runtime": runtime,
        }

    def tiles_training(self, job: TileJob) -> Resources:
        """Return the resources of a job on tiles, which reads the next tiles while it trains."""
        together = 2 * TRAINED_TOGETHER["gpu" if self.gpus(job.run) else "cpu"]
        return self.training(job.first_tile, len(job.tiles), together)

    def rendering(
        self,
        pixels: float | Callable[[Any], float],
        mem_mb: float | Callable[[Any], float] = estimates.RENDERING_MEMORY_MB,
    ) -> Resources:
        """Return the resources of a rule that renders this number of pixels of a network."""

        def minutes(wildcards: Any, threads: int) -> int:
            number = pixels(wildcards) if callable(pixels) else pixels
            network, gpus = self.plan.network_of(wildcards), self.gpus(wildcards)
            return estimates.minutes(estimates.rendering_s(number, network, threads, gpus))

        gpu_memory_mb = estimates.RENDERING_GPU_MEMORY_MB
        return {
            "gpu": lambda wildcards: self.exclusive_gpus(wildcards),
            "gpu_memory_mb": lambda wildcards: self.gpus(wildcards) * gpu_memory_mb,
            "mem_mb": mem_mb,
            "runtime": minutes,
        }

    def square_pixels(self, wildcards: Any) -> int:
        """Return the pixels of a square render: of the wildcard `size`, or else of the image's."""
        pixels = estimates.image_pixels(self.plan.image_of(wildcards))
        return int(wildcards.get("size") or pixels**0.5) ** 2

    def _of_samples(self, work: Callable[[Any, int], tuple[int, float]]) -> Resources:
        """Return the resources of a training of a table or classifier, whose `work` is estimated
        by `estimates.table_work` or `estimates.classifier_work`."""

        def mem_mb(wildcards: Any, threads: int) -> int:
            data_bytes, _ = work(self.plan.network_of(wildcards), threads)
            return estimates.memory_mb(data_bytes, self.gpus(wildcards))

        def runtime(wildcards: Any, threads: int, attempt: int) -> int:
            network = self.plan.network_of(wildcards)
            _, products = work(network, threads)
            engine = "tape on a GPU" if self.gpus(wildcards) else "tape"
            seconds = estimates.training_s(products, network["training"], engine, threads)
            return estimates.minutes(seconds, network["training"], attempt)

        return {"gpu": self.gpus, "mem_mb": mem_mb, "runtime": runtime}
