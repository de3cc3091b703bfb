# Large images: a network is trained on each tile; all are rendered and evaluated as one network.


rule unpack:
    input:
        image=local(lambda wildcards: PLAN.image_of(wildcards)["path"]),
    output:
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
    log:
        "logs/{image}/unpack.log",
    benchmark:
        "logs/{image}/unpack.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.tiled),
    priority: BEFORE_TRAININGS
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.all_cores
    resources:
        mem_mb=NEEDS.tiled_memory_mb,
        runtime=60,
    params:
        settings=PLAN.image_settings("mode", "threshold"),
        tiling=PLAN.tiling_of,
        version=VERSION,
    message:
        "Unpacking the image {wildcards.image}"
    script:
        f"{SCRIPTS}/unpack.py"


rule overview:
    input:
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
    output:
        overview=shown(
            "results/{image}/overview.png",
            "resized",
            image="{image}",
            network="(training image, reduced)",
        ),
    log:
        "logs/{image}/overview.log",
    benchmark:
        "logs/{image}/overview.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.tiled),
    conda:
        "../envs/networks.yaml"
    resources:
        mem_mb=EVALUATION_MEMORY_MB,
        runtime=30,
    params:
        max_megapixels=config["evaluate"]["max_megapixels"],
        version=VERSION,
    message:
        "Writing an overview of {wildcards.image} at a reduced size"
    script:
        f"{SCRIPTS}/overview.py"


# Each of these rules trains some tiles of an image. Its outputs are lists of the tiles' files, given
# by their full names: Snakemake is slow with that many patterns, and with that many output files.
for job in PLAN.tile_jobs:

    rule:
        name:
            job.rule
        input:
            pixels=f"results/{job.run.image}/pixels.npy",
            facts=f"results/{job.run.image}/picture.json",
        output:
            lists=job.lists,
        log:
            f"{job.log}.log",
        benchmark:
            f"{job.log}.benchmark.tsv"
        priority: len(job.tiles) * NEEDS.field_s(job.first_tile)
        conda:
            "../envs/networks.yaml"
        threads: NEEDS.training_threads(job.run)
        resources:
            **NEEDS.tiles_training(job),
        params:
            field=PLAN.field_settings(job.run),
            training=PLAN.training_settings(job.first_tile),
            execution=untracked(PLAN.execution_settings(job.first_tile, [])),
            # the division of tiles among jobs may change without their training
            tiles=untracked(job.places),
            version=VERSION,
        message:
            f"Training {job.run.field} on {len(job.tiles)} tiles of {job.run.image}"
        script:
            f"{SCRIPTS}/train_tiles.py"


rule gather_tiles:
    input:
        tiles=INPUTS.lists_of_tiles,
    output:
        mosaic="results/{image}/{field}/mosaic.json",
        history=shown("results/{image}/{field}/history.csv", "history"),
        record="results/{image}/{field}/training.json",
        checkpoints=directory("results/{image}/{field}/checkpoints"),
    log:
        "logs/{image}/{field}/gather_tiles.log",
    benchmark:
        "logs/{image}/{field}/gather_tiles.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.tiled),
    conda:
        "../envs/pages.yaml"
    threads: NEEDS.all_cores
    resources:
        mem_mb=NEEDS.tiled_memory_mb,
        runtime=30,
    params:
        tiling=PLAN.tiling_of,
        version=VERSION,
    message:
        "Combining the tiles of {wildcards.image} by {wildcards.field}"
    script:
        f"{SCRIPTS}/gather_tiles.py"


rule evaluate_tiles:
    input:
        model="results/{image}/{field}/mosaic.json",
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
        record="results/{image}/{field}/training.json",
    output:
        metrics=shown("results/{image}/{field}/metrics.json", "metrics"),
        comparison=directory("results/{image}/{field}/comparison"),
    log:
        "logs/{image}/{field}/evaluate_tiles.log",
    benchmark:
        "logs/{image}/{field}/evaluate_tiles.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.tiled),
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.rendering_threads
    resources:
        **NEEDS.rendering(
            lambda wildcards: (
                PLAN.tiled[wildcards.image][0].width * PLAN.tiled[wildcards.image][0].height
            ),
            mem_mb=estimates.RENDERING_MEMORY_MB + EVALUATION_MEMORY_MB,
        ),
    params:
        overview_megapixels=config["evaluate"]["max_megapixels"],
        field=PLAN.field_settings,
        training=PLAN.training_settings,
        device=PLAN.device_of,
        version=VERSION,
    message:
        "Evaluating {wildcards.field} on {wildcards.image}"
    script:
        f"{SCRIPTS}/evaluate_tiles.py"
