# Shared by the other files here: the start-up, the plan of all work, and input functions.

import re
from dataclasses import asdict

from snakemake_interface_executor_plugins.settings import DeploymentMethod

from jobs import preconditions
from jobs import startup
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import storage_errors
from terminal.screen import take_over

if workflow.is_main_process:
    has_conda = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    if startup.missing_packages(has_conda=has_conda):
        raise startup.UserError(startup.missing_packages_message(has_conda=has_conda))
    if Path(sys.argv[0]).name in ("snakemake", "__main__.py"):
        require_given_once(sys.argv[1:])
    # the terminal and the locks of another workflow are its own
    screen = None if IS_MODULE else take_over(logger, workflow)
    cleared = False
    try:
        preconditions.require_open_files()
        preconditions.require_own_folder()
        with storage_errors(what="cannot be written"):
            if not IS_MODULE:
                # the variable is what keeps the lock, until this process ends
                owner, cleared = startup.clear_stale_locks()
    except NeuralfieldError as error:
        raise startup.UserError(str(error))
    if cleared:
        logger.info("An earlier Snakemake was killed here; its locks are removed.")

# another workflow may need pandas, and Ctrl-C in its scripts
if not IS_MODULE:
    startup.leave_out_pandas()
    startup.let_ctrl_c_end_imports()

from jobs import batches
from config import configuration
from jobs import estimates
from config import named_files
from jobs import orphans
from config import own_image
from config import precedence
from jobs import recovery
from jobs import results_manifest
from config import sweeps
from jobs.plan import Plan, for_runs, renders_of_a_network
from neuralfield.system.device import gpu_is_present
from neuralfield.system.device_claim import total_memory_mb
from neuralfield.version import ENGINE_VERSION

try:
    if IS_MODULE:  # the command line and the config files are those of another workflow
        name_source, layers = lambda place: "config of the module neuralfield", []
        config = precedence.with_shipped_sections(config)
    else:
        name_source = configuration.source_namer(workflow.config_settings)
        layers = precedence.read_layers(workflow.config_settings)
    SETTINGS = configuration.read_settings(config, name_source, layers)
    PLAN = Plan(SETTINGS, sweeps.expand(SETTINGS, name_source))
except configuration.Problems as problems:
    raise startup.UserError(str(problems))

# from here on the networks of sweeps are fields like others
config = PLAN.config
if workflow.is_main_process:
    if screen:
        screen.plan = PLAN
    for note in SETTINGS["notes"]:
        logger.info(note)
    for sweep in PLAN.sweeps:
        logger.info(
            f"Sweep {sweep.name}: {len(sweep.runs)} runs of {len(sweep.networks)} networks."
        )

try:
    LEDGER = batches.read_ledger()
except NeuralfieldError as error:
    raise startup.UserError(str(error))
BATCH_LIMITS = batches.limits_of(PLAN.sweeps, config["fields"], PLAN.tiled)
NEW_BATCHES = {}
"""Written to the ledger by `onstart`; other processes find them there."""
if workflow.is_main_process and not startup.others_are_at_work():
    NEW_BATCHES = batches.arrange(
        BATCH_LIMITS,
        config["fields"],
        config["images"],
        LEDGER,
        is_made=lambda run: Path(f"results/{run.image}/{run.field}/model.safetensors").exists(),
    )
BATCHES = batches.settled(BATCH_LIMITS, config["fields"], LEDGER | NEW_BATCHES)

if workflow.is_main_process and "gpu_memory_mb" not in workflow.global_resources:
    if gpu_is_present() and (total_mb := total_memory_mb()):
        workflow.register_resource("gpu_memory_mb", total_mb)

TILE_JOBS = list(PLAN.tile_job_of.values())
TRAININGS = sum(run.image not in PLAN.tiled for run in PLAN.trained_runs(PLAN.runs))
TRAININGS += sum(job.is_last for job in TILE_JOBS)
TRAININGS -= sum(len(batch.runs) - 1 for batch in BATCHES)
"""Jobs that train networks of images."""

CORES_ON_A_CLUSTER = 2
"""Cores of a job, where neither the settings nor --cores set a number."""

SHORT_JOB_S = 60
"""A training that is estimated to take longer has its GPU for itself."""

BEFORE_TRAININGS = 1e9
"""The priority of jobs that trainings wait for."""

RENDERS = renders_of_a_network(config["render"])

RENDERING = {key: config["render"][key] for key in ("samples", "bit_depth", "max_megapixels")}
VERSION = f"engine {ENGINE_VERSION}"
"""The version of results: a param, because Snakemake does not see changes of a module."""


def one_of(names):
    """A regular expression for just these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


# for the networks of sweeps a form, not their names: Snakemake is slow with constraints that are long
SETTINGS_OF_SWEEPS = r"(?:\+\w+=[\w.-]+)*" if PLAN.sweeps else ""
TRAINED_NAMES = f"(?:{one_of(configuration.trained_fields(SETTINGS))}){SETTINGS_OF_SWEEPS}"


wildcard_constraints:
    image=one_of(config["images"]),
    field=f"(?:{one_of(SETTINGS['fields'])}){SETTINGS_OF_SWEEPS}",
    size=r"[1-9]\d*",
    segment=r"[1-9]\d*",
    network=one_of(PLAN.table_networks),
    classifier=one_of(config["classifiers"]),


def of_networks(key):
    """An input function for a setting of the job's network."""
    return lambda wildcards: PLAN.network_of(wildcards)[key]


def gpus_of(wildcards):
    """Return the number of GPUs that a job on this network keeps busy."""
    device = PLAN.device_of(wildcards)
    return int(device == "gpu" or (device == "auto" and gpu_is_present()))


def shares_gpu(seconds):
    """Return whether a job that takes so long runs beside others on a GPU of this machine."""
    is_on_cluster = workflow.remote_exec or workflow.non_local_exec
    return not is_on_cluster and not config["gpu_exclusive"] and seconds < SHORT_JOB_S


def training_gpus(wildcards):
    """The GPUs that a training has for itself."""
    return 0 if shares_gpu(longest_first(wildcards)) else gpus_of(wildcards)


def rendering_gpus(wildcards):
    """The GPUs that a job which renders has for itself."""
    return 0 if shares_gpu(0) else gpus_of(wildcards)


def training_gpu_memory_mb(wildcards):
    image, network = PLAN.image_of(wildcards), PLAN.network_of(wildcards)
    return gpus_of(wildcards) and estimates.training_gpu_memory_mb(image, network)


def rendering_gpu_memory_mb(wildcards):
    return gpus_of(wildcards) * estimates.RENDERING_GPU_MEMORY_MB


def training_threads(wildcards):
    """The number in the settings, or else a fair share of the cores."""
    threads = PLAN.network_of(wildcards)["training"].get("threads")
    if threads:
        return threads
    cores = workflow.resource_settings.cores
    if workflow.remote_exec:  # a job of a cluster: it has been given its share
        return cores
    trainings = len(config["classifiers"]) if hasattr(wildcards, "classifier") else TRAININGS
    return max(1, cores // max(1, trainings)) if cores else CORES_ON_A_CLUSTER


def all_cores(wildcards):
    """All cores, for a job that others wait for."""
    return workflow.resource_settings.cores or CORES_ON_A_CLUSTER


def rendering_threads(wildcards):
    """A fair share of the cores: each network is rendered, evaluated and shown in a time-lapse."""
    cores = workflow.resource_settings.cores
    if workflow.remote_exec or not cores:
        return cores or CORES_ON_A_CLUSTER
    return max(1, cores // (3 * len(PLAN.runs)))


def earlier_segment(wildcards):
    """The segment that a job goes on from: none for the first one."""
    segments = PLAN.network_of(wildcards)["training"]["segments"]
    earlier = int(wildcards.get("segment", segments)) - 1
    return [f"results/{{image}}/{{field}}/segments/{earlier}"] if earlier else []


def trained(wildcards):
    """The trained network, or a mosaic of the networks of all tiles."""
    name = "mosaic.json" if wildcards.image in PLAN.tiled else "model.safetensors"
    return f"results/{{image}}/{{field}}/{name}"


def learning(name):
    """An input function for a file of a training; none for imported weights."""

    def file(wildcards):
        imported = wildcards.field in PLAN.imported
        return [] if imported else [f"results/{{image}}/{{field}}/{name}"]

    return file


def imported_weights(wildcards):
    """The file of an imported network."""
    return PLAN.network_of(wildcards)["path"] if wildcards.field in PLAN.imported else []


def of_whole_images(file):
    """An input function for a file of images that are trained as a whole."""
    return lambda wildcards: [] if wildcards.image in PLAN.tiled else file


def of_large_images(file):
    """An input function for a file of images that are trained in tiles."""
    return lambda wildcards: file if wildcards.image in PLAN.tiled else []


def longer_side_of(wildcards):
    """The longer side of a render: the wildcard `size`, or else that of the image."""
    points = estimates.image_points(PLAN.image_of(wildcards))
    return int(wildcards.get("size") or points**0.5)


def tiling_of(wildcards):
    """The sides of an image and of its tiles."""
    return asdict(PLAN.tiled[wildcards.image][1])


def lists_of_tiles(wildcards):
    """The lists of the files of all tiles of an image's network, row by row."""
    run = (wildcards.image, wildcards.field)
    return [path for job in TILE_JOBS if job.run == run and job.is_last for path in job.lists]


def image_memory_mb(wildcards):
    return estimates.image_memory_mb(estimates.image_points(PLAN.image_of(wildcards)))


def source_memory_mb(wildcards):
    return estimates.source_memory_mb(PLAN.image_of(wildcards), config["max_megapixels"])


def training_memory_mb(wildcards, threads):
    image, network = PLAN.image_of(wildcards), PLAN.network_of(wildcards)
    return estimates.training_memory_mb(image, network, threads, gpus_of(wildcards))


def training_minutes(wildcards, threads, attempt):
    image, network = PLAN.image_of(wildcards), PLAN.network_of(wildcards)
    return estimates.training_minutes(image, network, threads, gpus_of(wildcards), attempt)


def longest_first(wildcards):
    """The priority of a training: what starts last should not be what takes longest."""
    image, network = PLAN.image_of(wildcards), PLAN.network_of(wildcards)
    return estimates.training_s(image, network, 1, gpus_of(wildcards))


def rendering_minutes(wildcards, longer_side_px, threads, images=1):
    network, points = PLAN.network_of(wildcards), images * longer_side_px**2
    return estimates.rendering_minutes(points, network, threads, gpus_of(wildcards))


def require_writable_results():
    """Refuse to start jobs whose results or logs could not be written."""
    try:
        preconditions.require_writable(
            path for job in workflow.dag.needrun_jobs() for path in (*job.output, *job.log)
        )
    except NeuralfieldError as error:
        raise startup.UserError(str(error))


def write_new_batches():
    """Let other processes know which network is in which batch."""
    try:
        batches.append(batches.LEDGER, NEW_BATCHES, LEDGER)
    except NeuralfieldError as error:
        raise startup.UserError(str(error))


def require_own_image_folder():
    """Refuse an image given by image= that has the name of another one with results."""
    for job in workflow.dag.jobs if config["own_image"] else ():
        if job.rule.name == "resize":
            earlier = workflow.persistence.input(job.output.resized) or ()
            try:
                own_image.require_same_source(job.wildcards.image, job.input.image, earlier)
            except NeuralfieldError as error:
                raise startup.UserError(str(error))


def workflow_file(path):
    """A file of the workflow, wherever it is run."""
    return str(named_files.find_file(path) or path)


def page_files(*includes):
    """The files that the template of a page includes."""
    names = ("report_page.html.j2", *includes, "report.css", "report.js")
    return [workflow_file(f"workflow/report/{name}") for name in names]


def shown(path, caption, category, **labels):
    """An output that Snakemake's own report shows, by default as one of an image and a network."""
    labels = labels or {"image": "{image}", "network": "{field}"}
    return report(path, caption=f"../report/{caption}.rst", category=category, labels=labels)


def incomplete_again(contents):
    return recovery.incomplete_again(workflow, logger.info, contents)


def one_for_each(section, wildcard, example):
    """Make a function of patterns: an input function for each name of a section of the config."""

    def every(pattern):
        def names(wildcards):
            if not config[section]:
                raise startup.UserError(f"config.yaml: {section}: missing; expected {example}")
            return expand(pattern, **{wildcard: config[section]})

        return names

    return every


# `onstart` of a module is not called
if IS_MODULE and workflow.is_main_process and not workflow.dryrun:
    write_new_batches()
