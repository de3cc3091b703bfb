# What the other files here are written with: the checked settings, names of files, estimates.

import re
import shutil

from jobs import failures
from jobs import preconditions
from jobs import startup
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import storage_errors

if workflow.is_main_process:
    if startup.missing_packages():
        raise startup.UserError(startup.missing_packages_message())
    if Path(sys.argv[0]).name in ("snakemake", "__main__.py"):
        require_given_once(sys.argv[1:])
    failures.shorten(logger, workflow.output_settings.verbose)
    try:
        preconditions.require_open_files()
        preconditions.require_own_folder()
        with storage_errors(what="cannot be written"):
            # the variable is what keeps the lock, until this process ends
            owner, cleared = startup.clear_stale_locks()
    except NeuralfieldError as error:
        raise startup.UserError(str(error))
    if cleared:
        logger.info("An earlier Snakemake was killed here; its locks are removed.")

from jobs import batches
from config import configuration
from jobs import estimates
from config import large_images
from config import named_files
from jobs import orphans
from config import own_image
from config import precedence
from jobs import results_manifest
from config import sweeps
from config import table_settings
from neuralfield.system.device import gpu_is_present
from neuralfield.version import ENGINE_VERSION

try:
    name_source = configuration.source_namer(workflow.config_settings)
    layers = precedence.read_layers(workflow.config_settings)
    SETTINGS = configuration.read_settings(config, name_source, layers)
    SWEEPS = sweeps.expand(SETTINGS, name_source)
except configuration.Problems as problems:
    raise startup.UserError(str(problems))

# from here on the networks of sweeps are fields like others
config = SETTINGS | {"fields": SETTINGS["fields"] | sweeps.all_fields(SWEEPS, SETTINGS)}
SINGLE_RUNS = configuration.runs(SETTINGS)
SWEPT_RUNS = sweeps.all_runs(SWEEPS)
RUNS = SINGLE_RUNS + SWEPT_RUNS
if workflow.is_main_process:
    for note in SETTINGS["notes"]:
        logger.info(note)
    for sweep in SWEEPS:
        logger.info(
            f"Sweep {sweep.name}: {len(sweep.runs)} runs of {len(sweep.networks)} networks."
        )

TRAINED = configuration.trained_fields(config)
TRAININGS = [run for run in RUNS if run.field in TRAINED]
IMPORTED = [field for field in config["fields"] if field not in TRAINED]
TILED = large_images.headers_and_tilings(config["images"])
"""Header and tiling of each picture that is taught in tiles, by its name."""
WHOLE = [name for name in config["images"] if name not in TILED]

try:
    LEDGER = batches.read_ledger()
except NeuralfieldError as error:
    raise startup.UserError(str(error))
BATCH_LIMITS = batches.limits_of(SWEEPS, config["fields"], TILED)
NEW_BATCHES = {}
"""Written down by `onstart`; other processes find them in the ledger."""
if workflow.is_main_process and not startup.others_are_at_work():
    NEW_BATCHES = batches.arrange(
        BATCH_LIMITS,
        config["fields"],
        config["images"],
        LEDGER,
        is_made=lambda run: Path(f"results/{run.image}/{run.field}/model.safetensors").exists(),
    )
BATCHES = batches.settled(BATCH_LIMITS, config["fields"], LEDGER | NEW_BATCHES)

CORES_ON_A_CLUSTER = 2
"""For a training, where neither the settings nor --cores say how many there are to share."""

DRAWING_THREADS = 2
DRAWING = {key: config["render"][key] for key in ("samples", "bit_depth", "max_megapixels")}
VERSION = f"engine {ENGINE_VERSION}"
"""Of what the package computes: a param, because changes of a module are not seen otherwise."""


def one_of(names):
    """A regular expression for just these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


# for the networks of sweeps a form, not their names: Snakemake is slow with constraints that are long
SETTINGS_OF_SWEEPS = r"(?:\+\w+=[\w.-]+)*" if SWEEPS else ""
TRAINED_NAMES = f"(?:{one_of(configuration.trained_fields(SETTINGS))}){SETTINGS_OF_SWEEPS}"


wildcard_constraints:
    image=one_of(config["images"]),
    field=f"(?:{one_of(SETTINGS['fields'])}){SETTINGS_OF_SWEEPS}",
    size=r"[1-9]\d*",
    crop=one_of(config["render"]["crops"]),
    segment=r"[1-9]\d*",
    tile=r"\d+_\d+",


def image_of(wildcards):
    """Settings of the picture."""
    return config["images"][wildcards.image]


def field_of(wildcards):
    """Settings of the network."""
    if wildcards.field not in config["fields"]:
        raise startup.UserError(
            f"{wildcards.field}: no such network; expected a field or a combination of a sweep;"
            " `snakemake -n` names them all"
        )
    return config["fields"][wildcards.field]


def device_of(wildcards):
    """Where a network is trained and drawn."""
    return field_of(wildcards).get("training", config["training"])["device"]


def gpus_of(wildcards):
    """How many cards a job on this network keeps busy."""
    device = device_of(wildcards)
    return int(device == "gpu" or (device == "auto" and gpu_is_present()))


def training_threads(wildcards):
    """What the settings say, or else a fair share of the cores."""
    threads = field_of(wildcards)["training"].get("threads")
    if threads:
        return threads
    cores = workflow.resource_settings.cores
    if workflow.remote_exec:  # a job of a cluster: it has been given its share
        return cores
    trainings = sum(len(tiles_of(run.image)) or 1 for run in TRAININGS)
    trainings -= sum(len(batch.runs) - 1 for batch in BATCHES)
    return max(1, cores // max(1, trainings)) if cores else CORES_ON_A_CLUSTER


def field_settings(wildcards):
    """What the network is, without how it is trained."""
    return {key: value for key, value in field_of(wildcards).items() if key != "training"}


def training_settings(wildcards):
    """How it is trained, without what makes no difference to the result; imported: nothing."""
    return {
        key: value
        for key, value in field_of(wildcards).get("training", {}).items()
        if key not in configuration.MAKES_NO_DIFFERENCE
    }


def earlier_segment(wildcards):
    """The folder that a segment goes on from: none for the first one."""
    segments = field_of(wildcards)["training"]["segments"]
    earlier = int(wildcards.get("segment", segments)) - 1
    return [f"results/{{image}}/{{field}}/segments/{earlier}"] if earlier else []


def tiles_of(image):
    """Names of a picture's tiles; none where it is taught as a whole."""
    return [tile.name for tile in TILED[image][1]] if image in TILED else []


def trained(wildcards):
    """What is drawn: a network, or a mosaic of those of all tiles."""
    name = "mosaic.json" if wildcards.image in TILED else "model.safetensors"
    return f"results/{{image}}/{{field}}/{name}"


def taught(image):
    """A picture of what was taught; a small one, where that is large."""
    return f"results/{image}/{'overview' if image in TILED else 'resized'}.png"


def training_record(wildcards):
    """How the network was trained: nothing for imported weights."""
    if wildcards.field in IMPORTED:
        return []
    return "results/{image}/{field}/training.json"


def picture_memory_mb(wildcards):
    return estimates.picture_memory_mb(estimates.picture_points(image_of(wildcards)))


def source_memory_mb(wildcards):
    return estimates.source_memory_mb(image_of(wildcards), config["max_megapixels"])


def training_memory_mb(wildcards, threads):
    return estimates.training_memory_mb(
        image_of(wildcards), field_of(wildcards), threads, gpus_of(wildcards)
    )


def training_minutes(wildcards, threads, attempt):
    return estimates.training_minutes(
        image_of(wildcards), field_of(wildcards), threads, gpus_of(wildcards), attempt
    )


def drawing_minutes(wildcards, longer_side_px, threads, pictures=1):
    return estimates.drawing_minutes(
        pictures * longer_side_px**2, field_of(wildcards), threads, gpus_of(wildcards)
    )


def tile_of(wildcards):
    """The tile that a job works on."""
    return TILED[wildcards.image][1].named(wildcards.tile)


def of_tiles(product, folder="results/{image}/{field}"):
    """An input function for a file of every tile: none, where an image is trained as a whole."""

    def files(wildcards):
        pattern = f"{folder}/tiles/{{tile}}/{product}"
        return expand(pattern, tile=tiles_of(wildcards.image), allow_missing=True)

    return files


def imported_weights(wildcards):
    """What an imported network is compared with."""
    field = field_of(wildcards)
    return field["path"] if wildcards.field in IMPORTED else []


def earlier_tile_segment(wildcards):
    """The folder that a segment of a tile's training goes on from: none for the first one."""
    return [
        folder.replace("{field}/", "{field}/tiles/{tile}/") for folder in earlier_segment(wildcards)
    ]


def tile_memory_mb(wildcards, threads):
    return estimates.training_memory_mb(
        estimates.tile_image(tile_of(wildcards)), field_of(wildcards), threads, gpus_of(wildcards)
    )


def tile_minutes(wildcards, threads, attempt):
    return estimates.training_minutes(
        estimates.tile_image(tile_of(wildcards)),
        field_of(wildcards),
        threads,
        gpus_of(wildcards),
        attempt,
    )


def require_writable_results():
    """Refuse to start jobs whose results or logs could not be written."""
    try:
        preconditions.require_writable(
            path for job in workflow.dag.needrun_jobs() for path in (*job.output, *job.log)
        )
    except NeuralfieldError as error:
        raise startup.UserError(str(error))


def write_batches_down():
    """Let other processes know who is in which batch."""
    try:
        batches.append(batches.LEDGER, NEW_BATCHES, LEDGER)
    except NeuralfieldError as error:
        raise startup.UserError(str(error))


def require_own_image_folder():
    """Let an image given by image= not take the folder of another one that has the same name."""
    for job in workflow.dag.jobs if config["own_image"] else ():
        if job.rule.name == "resize":
            earlier = workflow.persistence.input(job.output.resized) or ()
            try:
                own_image.require_same_source(job.wildcards.image, job.input.picture, earlier)
            except NeuralfieldError as error:
                raise startup.UserError(str(error))


def batch_pictures(batch, file):
    """A file of each picture that was put into a batch, but those that are not to be had any more."""
    files = {image: f"results/{image}/{file}" for image in batch.images}
    return [path for image, path in files.items() if image in WHOLE or Path(path).exists()]


def batch_resources(batch):
    """What its job needs: estimates of all its networks, and what --set-resources says of batches.

    Snakemake applies that to rules by their names, and those of batches are not known before.
    """
    members = [(image_of(run), field_of(run)) for run in batch.runs]
    gpus = gpus_of(batch.runs[0])

    def memory_mb(wildcards, threads):
        return estimates.batch_memory_mb(members, threads, gpus)

    def minutes(wildcards, threads, attempt):
        return estimates.batch_minutes(members, threads, gpus, attempt)

    said = workflow.resource_settings.overwrite_resources.get("train_batch", {})
    said = {name: getattr(value, "raw", value) for name, value in said.items()}
    return {"gpu": gpus, "mem_mb": memory_mb, "runtime": minutes} | said


def batch_threads(batch):
    """As those of a training alone, or what --set-threads says of batches."""
    said = workflow.resource_settings.overwrite_threads.get("train_batch")
    return getattr(said, "raw", said) or training_threads(batch.runs[0])


def workflow_file(path):
    """A file of the workflow, wherever it is run."""
    return str(named_files.find_file(path) or path)


def for_runs(pattern, runs=RUNS, **others):
    """Names of files: one for every run, and for every combination with the others."""
    return [
        name for run in runs for name in expand(pattern, image=run.image, field=run.field, **others)
    ]


def image_products():
    """Files of all images, up to what networks are trained on."""
    files = []
    for image in config["images"]:
        names = ("overview.png", "pixels.npy") if image in TILED else ("resized.png", "pixels.csv")
        names += tuple(
            f"tiles/{tile}/{name}"
            for tile in tiles_of(image)
            for name in ("pixels.csv", "picture.json")
        )
        files += [f"results/{image}/{name}" for name in ("picture.json", *names)]
    return files


def network_products():
    """Files of all networks, but for renders and films: what training and evaluation leave."""
    files = []
    for run in RUNS:
        folder = f"results/{run.image}/{run.field}"
        files += [f"{folder}/metrics.json", f"{folder}/comparison"]
        if run.field in IMPORTED:
            files.append(f"{folder}/model.safetensors")
            continue
        tiles = [f"{folder}/tiles/{tile}" for tile in tiles_of(run.image)]
        files += training_products(folder, "mosaic.json" if tiles else "model.safetensors")
        segments = range(1, config["fields"][run.field]["training"]["segments"])
        for training in tiles or [folder]:
            files += [f"{training}/segments/{segment}" for segment in segments]
        for tile in tiles:
            files += training_products(tile)
    return files


def training_products(folder, network="model.safetensors"):
    """Files of one training."""
    names = (network, "history.csv", "training.json", "checkpoints")
    return [f"{folder}/{name}" for name in names]


def sweep_products():
    """The comparisons of all networks of sweeps, where there are sweeps."""
    names = ("comparison.csv", "comparison_by_image.csv") if SWEEPS else ()
    return [f"results/{name}" for name in names]


def redraws():
    """Every network's pictures; those of sweeps where asked for."""
    folder = "results/{image}/{field}"
    runs = SINGLE_RUNS + sweeps.all_runs(sweep for sweep in SWEEPS if sweep.render)
    return [
        *for_runs(f"{folder}/render_{{size}}.png", runs, size=config["render"]["sizes"]),
        *for_runs(f"{folder}/crop_{{crop}}.png", runs, crop=config["render"]["crops"]),
    ]


def films(runs):
    """How networks learned, except imported ones."""
    return for_runs(
        "results/{image}/{field}/timelapse.{format}",
        runs=[run for run in runs if run.field in TRAINED],
        format=config["timelapse"]["formats"],
    )


def forget_states():
    """Remove what trainings resume from, where they are finished; their results stay kept."""
    for run in TRAININGS:
        whole = Path("results", run.image, run.field)
        for folder in (whole, *(whole / "tiles" / tile for tile in tiles_of(run.image))):
            forget_state(folder)
    for network in TABLE_NETWORKS:
        forget_state(Path("results", "tables", network))
    for classifier in config["classifiers"]:
        forget_state(Path("results", "classifiers", classifier))


def forget_state(folder):
    """Remove what a training resumes from, if it is finished."""
    if (folder / "model.safetensors").exists():
        shutil.rmtree(folder / ".state", ignore_errors=True)
