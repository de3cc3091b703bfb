# Definitions shared by the other files of this folder: start-up checks, and the plan of all jobs.

import re

from snakemake.exceptions import WorkflowError

try:
    from config import configuration, sweeps
    from jobs import batches, estimates
    from jobs.inputs import Inputs
    from jobs.needs import Needs
    from jobs.plan import Plan, for_runs, renders_of_a_network
    from neuralfield.system.errors import NeuralfieldError
    from neuralfield.version import ENGINE_VERSION

    SETTINGS = configuration.read_settings(config, SOURCES)
    PLAN = Plan(SETTINGS, sweeps.expand(SETTINGS, SOURCES))
    # from here on, `config` has the networks of sweeps as fields, too
    config = PLAN.config
    BATCHES = batches.arrange(
        PLAN.sweeps,
        config["fields"],
        config["images"],
        PLAN.tiled,
        batches.read_ledger(),
        is_made=lambda run: Path(f"results/{run.image}/{run.field}/model.safetensors").exists(),
    )
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{sys.executable}: no {error.name}; expected NumPy and Pillow, for images with tiles pyvips,"
        " and without --sdm conda all packages of the workflow; run `pip install numpy pillow"
        " 'pyvips[binary]'`, or `make run` in a clone"
    ) from error
except (configuration.Problems, NeuralfieldError) as error:
    raise WorkflowError(str(error)) from None

for note in SETTINGS["notes"]:
    logger.info(note)
for sweep in PLAN.sweeps:
    logger.info(f"Sweep {sweep.name}: {len(sweep.runs)} runs of {len(sweep.networks)} networks.")

try:
    CORES = workflow.cores
except WorkflowError:  # not set, because all jobs are submitted to a cluster
    CORES = None

NEEDS, INPUTS = Needs(PLAN, BATCHES, CORES), Inputs(PLAN)

EVALUATION_MEMORY_MB = estimates.memory_mb(
    estimates.PIXEL_BYTES * 1e6 * config["evaluate"]["max_megapixels"]
)

PAGES = FOLDER / "workflow/report"
PAGE_FILES = sorted(path for path in PAGES.iterdir() if path.suffix != ".rst")
"""The templates of all pages, and what they include."""

BEFORE_TRAININGS = 1e9
"""The priority of jobs that trainings wait for."""

RENDERS = renders_of_a_network(config["render"])

RENDERING = {
    key: config["render"][key] for key in ("samples", "bit_depth", "paper", "max_megapixels")
}
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


def untracked(value):
    """Return a param that Snakemake does not compare with that of earlier runs.

    This holds for params whose functions have the parameter `input`.
    """
    return lambda wildcards, input: value


CATEGORIES = {
    "report": "1. All results",
    "render": "2. Renders",
    "resized": "2. Renders",
    "view": "3. Viewers",
    "timelapse": "4. Time-lapses",
    "history": "5. Trainings",
    "metrics": "6. Numbers",
    "summary": "6. Numbers",
    "comparison": "6. Numbers",
    "table": "7. Tables",
    "classifier": "8. Classifiers",
}
"""Categories of Snakemake's own report, which sorts them, by the first word of a caption's name."""


def shown(path, caption, **labels):
    """Mark an output for Snakemake's own report; it is labelled by image and network by default."""
    labels = labels or {"image": "{image}", "network": "{field}"}
    category = CATEGORIES[caption.partition("_")[0]]
    return report(path, caption=f"../report/{caption}.rst", category=category, labels=labels)
