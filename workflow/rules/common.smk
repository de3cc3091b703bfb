# Definitions shared by the other files of this folder: start-up checks, and the plan of all jobs.

import re

from snakemake_interface_executor_plugins.settings import DeploymentMethod

from jobs import preconditions, startup
from neuralfield.system.files import storage_errors

if workflow.is_main_process:
    has_conda = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    startup.require_packages(has_conda=has_conda)
    cleared = False
    with startup.user_errors():
        preconditions.require_open_files()
        preconditions.require_own_folder()
        with storage_errors(what="cannot be written"):
            if not IS_MODULE:
                # `owner` holds the lock until this process ends
                owner, cleared = startup.clear_stale_locks()
    if cleared:
        logger.info("An earlier Snakemake was killed here; its locks are removed.")

# a workflow that imports this one may need pandas, and handle Ctrl-C in its scripts itself
if not IS_MODULE:
    startup.leave_out_pandas()
    startup.let_ctrl_c_end_imports()

from config import configuration, named_files, sweeps
from config.sources import Sources
from jobs import batches, estimates, manifest, orphans, recovery
from jobs.inputs import Inputs
from jobs.needs import Needs
from jobs.plan import Plan, for_runs, renders_of_a_network
from neuralfield.system.device import gpu_is_present
from neuralfield.system.device_claim import total_memory_mb
from neuralfield.version import ENGINE_VERSION

try:
    SOURCES = Sources("config of the module neuralfield" if IS_MODULE else "config.yaml", GIVEN)
    SETTINGS = configuration.read_settings(config, SOURCES)
    PLAN = Plan(SETTINGS, sweeps.expand(SETTINGS, SOURCES))
except configuration.Problems as problems:
    raise startup.UserError(str(problems))

# from here on, `config` has the networks of sweeps as fields, too
config = PLAN.config
if workflow.is_main_process:
    for note in SETTINGS["notes"]:
        logger.info(note)
    for sweep in PLAN.sweeps:
        logger.info(
            f"Sweep {sweep.name}: {len(sweep.runs)} runs of {len(sweep.networks)} networks."
        )

with startup.user_errors():
    LEDGER = batches.read_ledger()
BATCH_LIMITS = batches.limits_of(PLAN.sweeps, config["fields"], PLAN.tiled)
NEW_BATCHES = {}
"""New batches, which `onstart` writes to the ledger, where other processes read them."""
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

if workflow.is_main_process and not IS_MODULE and not workflow.dryrun:
    with startup.user_errors():
        files = [Path("results"), FOLDER / "workflow/report", *PLAN.sources()]
        preconditions.correct_future_times(files, logger.info)

NEEDS, INPUTS = Needs(PLAN, BATCHES, workflow), Inputs(PLAN)

BEFORE_TRAININGS = 1e9
"""The priority of jobs that trainings wait for."""

RENDERS = renders_of_a_network(config["render"])

RENDERING = {key: config["render"][key] for key in ("samples", "bit_depth", "max_megapixels")}
VERSION = f"engine {ENGINE_VERSION}"
"""The version of results. It is a param of rules, because Snakemake ignores changes of modules."""


def one_of(names):
    """Return a regular expression that matches these names and nothing else."""
    return "|".join(map(re.escape, names)) or "(?!)"


# networks of sweeps are matched by a pattern, because Snakemake is slow with long lists of names
SETTINGS_OF_SWEEPS = r"(?:\+\w+=[\w.-]+)*" if PLAN.sweeps else ""
TRAINED_NAMES = f"(?:{one_of(configuration.trained_fields(SETTINGS))}){SETTINGS_OF_SWEEPS}"


wildcard_constraints:
    image=one_of(config["images"]),
    field=f"(?:{one_of(SETTINGS['fields'])}){SETTINGS_OF_SWEEPS}",
    size=r"[1-9]\d*",
    network=one_of(PLAN.table_networks),
    classifier=one_of(config["classifiers"]),


def require_writable_results():
    """Raise `UserError`, before jobs start, if their results or logs cannot be written."""
    paths = [path for job in workflow.dag.needrun_jobs() for path in (*job.output, *job.log)]
    with startup.user_errors():
        preconditions.require_writable(paths)


def write_new_batches():
    """Write new batches to the ledger, so that other processes know the batch of each network."""
    with startup.user_errors():
        batches.append(batches.LEDGER, NEW_BATCHES, LEDGER)


def shown(path, caption, category, **labels):
    """Mark an output for Snakemake's own report; it is labelled by image and network by default."""
    labels = labels or {"image": "{image}", "network": "{field}"}
    return report(path, caption=f"../report/{caption}.rst", category=category, labels=labels)


def incomplete_again(products):
    return recovery.incomplete_again(workflow, logger.info, products)


# `onstart` of a module is not called
if IS_MODULE and workflow.is_main_process and not workflow.dryrun:
    write_new_batches()


def changed_tiles_again(job):
    """Return an input function without files that forces a job if files of its tiles have changed."""

    def no_files(wildcards):
        if workflow.is_main_process:
            recovery.changed_tiles_again(workflow, logger.info, job)
        return []

    return no_files
