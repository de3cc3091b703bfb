"""The cores, GPUs, memory and time that the jobs of a plan request."""

from collections.abc import Callable, Sequence
from typing import Any

from config.configuration import ImageNetwork
from jobs import estimates
from jobs.batches import Batch
from jobs.plan import Plan, Settings
from jobs.tile_job import TileJob
from neuralfield.system.device import gpu_is_present
from neuralfield.tasks.image.mosaic import TRAINED_TOGETHER

CORES_ON_A_CLUSTER = 2
"""Default cores of a job if neither the settings nor --cores set a number."""

SHORT_JOB_S = 60
"""Estimated seconds from which on a training has its GPU for itself."""


class Needs:
    """Functions for the threads, priorities and resources of rules.

    Their arguments are those that Snakemake passes; an `ImageNetwork` may take the place of
    wildcards. `workflow` is Snakemake's object.
    """

    def __init__(self, plan: Plan, batches: Sequence[Batch], workflow: Any) -> None:
        self.plan, self._workflow = plan, workflow
        # jobs that train networks of images
        self._trainings = sum(run.image not in plan.tiled for run in plan.trained_runs(plan.runs))
        self._trainings += len(plan.tile_job_of)
        self._trainings -= sum(len(batch.runs) - 1 for batch in batches)

    def _image_and_network(self, wildcards: Any) -> tuple[Settings, Settings]:
        return self.plan.image_of(wildcards), self.plan.network_of(wildcards)

    def gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs that a job on this network uses."""
        device = self.plan.device_of(wildcards)
        return int(device == "gpu" or (device == "auto" and gpu_is_present()))

    def _shares_gpu(self, seconds: float) -> bool:
        """Return whether a job of this estimated time shares a GPU of this machine with others."""
        is_on_cluster = self._workflow.remote_exec or self._workflow.non_local_exec
        return not (is_on_cluster or self.plan.config["gpu_exclusive"] or seconds >= SHORT_JOB_S)

    def training_gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs that a training uses exclusively."""
        return 0 if self._shares_gpu(self.longest_first(wildcards)) else self.gpus(wildcards)

    def training_gpu_memory_mb(self, wildcards: Any) -> float:
        together = self._image_and_network(wildcards)
        return self.gpus(wildcards) and estimates.training_gpu_memory_mb(*together)

    def training_threads(self, wildcards: Any) -> int:
        """Return the number of threads in the settings, or else an equal share of the cores."""
        threads = self.plan.network_of(wildcards)["training"].get("threads")
        if threads:
            return threads
        cores = self._workflow.resource_settings.cores
        if self._workflow.remote_exec:  # a job on a cluster, which has its own cores
            return cores
        is_classifier = hasattr(wildcards, "classifier")
        trainings = len(self.plan.config["classifiers"]) if is_classifier else self._trainings
        return max(1, cores // max(1, trainings)) if cores else CORES_ON_A_CLUSTER

    def all_cores(self, wildcards: Any) -> int:
        """Return all cores, for a job that other jobs wait for."""
        return self._workflow.resource_settings.cores or CORES_ON_A_CLUSTER

    def rendering_threads(self, wildcards: Any) -> int:
        """Return an equal share of the cores for each of three jobs per network.

        The three jobs render the network, evaluate it and make its time-lapse.
        """
        cores = self.all_cores(wildcards)
        if self._workflow.remote_exec or not self._workflow.resource_settings.cores:
            return cores
        return max(1, cores // (3 * len(self.plan.runs)))

    def image_memory_mb(self, wildcards: Any) -> int:
        return estimates.image_memory_mb(estimates.image_points(self.plan.image_of(wildcards)))

    def source_memory_mb(self, wildcards: Any) -> int:
        most_megapixels = self.plan.config["max_megapixels"]
        return estimates.source_memory_mb(self.plan.image_of(wildcards), most_megapixels)

    def training_memory_mb(self, wildcards: Any, threads: int) -> int:
        together = self._image_and_network(wildcards)
        return estimates.training_memory_mb(*together, threads, self.gpus(wildcards))

    def training_minutes(self, wildcards: Any, threads: int, attempt: int) -> int:
        together = [self._image_and_network(wildcards)]
        return estimates.batch_minutes(together, threads, self.gpus(wildcards), attempt)

    def longest_first(self, wildcards: Any) -> float:
        """Return the priority of a training: its time, so that long trainings start first."""
        together = self._image_and_network(wildcards)
        return estimates.training_s(*together, 1, self.gpus(wildcards))

    def square_pixels(self, wildcards: Any) -> int:
        """Return the pixels of a square render: of the wildcard `size`, or else of the image's."""
        points = estimates.image_points(self.plan.image_of(wildcards))
        return int(wildcards.get("size") or points**0.5) ** 2

    def rendering(
        self,
        pixels: float | Callable[[Any], float],
        mem_mb: float | Callable[[Any], float] = estimates.RENDERING_MEMORY_MB,
    ) -> dict[str, Any]:
        """Return the resources of a rule that renders this number of pixels of a network."""

        def minutes(wildcards: Any, threads: int) -> int:
            points = pixels(wildcards) if callable(pixels) else pixels
            network, gpus = self.plan.network_of(wildcards), self.gpus(wildcards)
            return estimates.minutes(estimates.rendering_s(points, network, threads, gpus), {})

        gpu_memory_mb = estimates.RENDERING_GPU_MEMORY_MB
        return {
            "gpu": lambda wildcards: 0 if self._shares_gpu(0) else self.gpus(wildcards),
            "gpu_memory_mb": lambda wildcards: self.gpus(wildcards) * gpu_memory_mb,
            "mem_mb": mem_mb,
            "runtime": minutes,
        }

    def table_memory_mb(self, wildcards: Any) -> int:
        return estimates.table_memory_mb(self.plan.network_of(wildcards), self.gpus(wildcards))

    def table_minutes(self, wildcards: Any, attempt: int) -> int:
        table = self.plan.network_of(wildcards)
        return estimates.minutes(estimates.table_training_s(table), table["training"], attempt)

    def classifier_memory_mb(self, wildcards: Any, threads: int) -> int:
        network = self.plan.network_of(wildcards)
        return estimates.classifier_memory_mb(network, threads, self.gpus(wildcards))

    def classifier_minutes(self, wildcards: Any, threads: int, attempt: int) -> int:
        network = self.plan.network_of(wildcards)
        work_s = estimates.classifier_training_s(network, threads, self.gpus(wildcards))
        return estimates.minutes(work_s, network["training"], attempt)

    def tiles_s(self, job: TileJob) -> float:
        return len(job.tiles) * self.longest_first(job.first_tile)

    def tiles_resources(self, job: TileJob) -> dict[str, Any]:
        """Return the estimates for a job on tiles.

        The memory is that of the tiles that are trained together and of those that are read ahead;
        the time is that of all tiles.
        """
        network = (self.plan.image_of(job.first_tile), self.plan.network_of(job.run))
        gpus = self.gpus(job.run)
        return self._resources_of_several(
            "train_tiles",
            gpus,
            seconds=self.tiles_s(job),
            trained=[network] * len(job.tiles),
            in_memory=[network] * (2 * TRAINED_TOGETHER["gpu" if gpus else "cpu"]),
            on_gpu=[job.first_tile] * TRAINED_TOGETHER["gpu"],
        )

    def batch_s(self, batch: Batch) -> float:
        return sum(map(self.longest_first, batch.runs))

    def batch_resources(self, batch: Batch) -> dict[str, Any]:
        """Return the estimates for all networks of a batch."""
        networks = [self._image_and_network(run) for run in batch.runs]
        return self._resources_of_several(
            "train_batch",
            self.gpus(batch.runs[0]),
            seconds=self.batch_s(batch),
            trained=networks,
            in_memory=networks,
            on_gpu=batch.runs,
        )

    def _resources_of_several(
        self,
        kind: str,
        gpus: int,
        *,
        seconds: float,
        trained: Sequence[tuple[Settings, Settings]],
        in_memory: Sequence[tuple[Settings, Settings]],
        on_gpu: Sequence[ImageNetwork | Any],
    ) -> dict[str, Any]:
        """Return the resources of a job that trains several networks.

        The time is estimated for all networks in `trained`, and the memory for those that are in
        memory at the same time. Values that --set-resources sets for this kind of job win.
        """

        def gpu_memory_mb(wildcards: Any) -> float:
            own = (self.training_gpu_memory_mb(run) - estimates.CUDA_MEMORY_MB for run in on_gpu)
            return gpus and estimates.CUDA_MEMORY_MB + sum(own)

        given = self._workflow.resource_settings.overwrite_resources.get(kind, {})
        return {
            "gpu": lambda wildcards: 0 if self._shares_gpu(seconds) else gpus,
            "gpu_memory_mb": gpu_memory_mb,
            "mem_mb": lambda wildcards, threads: estimates.batch_memory_mb(
                in_memory, threads, gpus
            ),
            "runtime": lambda wildcards, threads, attempt: estimates.batch_minutes(
                trained, threads, gpus, attempt
            ),
        } | {name: getattr(value, "raw", value) for name, value in given.items()}

    def threads_of_several(self, kind: str, run: ImageNetwork) -> int:
        """Return the threads that --set-threads sets for a kind of rules, or else of a training.

        Users cannot name the single rules, because their names are generated.
        """
        given = self._workflow.resource_settings.overwrite_threads.get(kind)
        return getattr(given, "raw", given) or self.training_threads(run)
