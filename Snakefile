"""Fit small neural networks to images; see README.md, and config.yaml for the settings."""

import atexit
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")


# not `workflow.basedir`, which is the importing workflow's folder if this workflow is a module
FOLDER = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
IS_MODULE = not workflow.modifier.is_main_snakefile()
sys.path[:0] = [str(FOLDER / folder) for folder in ("workflow", "scripts")]

from config.config_file import config_file, require_given_once


configfile: config_file(FOLDER, is_module=IS_MODULE)


report: "workflow/report/workflow.rst"


# Used only if --sdm requests it: a base image with Python, to which the packages of pyproject.toml
# have to be added.
container: "docker://python:3.13-slim"


include: "workflow/rules/common.smk"


# The inputs are all files that results/README.md lists, because Snakemake may leave a missing file
# out that is not a target.
rule all:
    input:
        "results/report.html",
        "results/summary.csv",
        PLAN.all_products(),
        incomplete_again(PLAN.all_products),


include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/edges.smk"
include: "workflow/rules/tiles.smk"
include: "workflow/rules/render.smk"
include: "workflow/rules/view.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/classifiers.smk"


onstart:
    require_own_image_folder()
    gone = orphans.cancel_orphans(owner, logger.info, lambda: orphans.files_made(workflow.dag))
    if gone:
        logger.info(f"Files went with them ({len(gone)}): planning again.")
        orphans.begin_again(workflow)
    require_writable_results()
    write_new_batches()
    recovery.mark_forced_jobs(workflow, PLAN.tile_job_of)
    startup.end_without_waiting(workflow)


# At exit, because a run that has nothing to do calls neither `onsuccess` nor `onerror`.
if workflow.is_main_process and not IS_MODULE:
    atexit.register(manifest.write_manifest, workflow)


onsuccess:
    from terminal import results_table

    results_table.show(workflow, screen, PLAN.runs)


onerror:
    from terminal import results_table

    if screen:
        screen.end()
    print(
        "Not finished. Correct the errors above, if there are any, and run the same command again:"
        " finished results are kept, and trainings continue from their last saved state."
    )
    if others := results_table.report_of_the_others(workflow, name_source):
        print(others)
