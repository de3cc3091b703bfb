# A large picture: a network for each of its tiles, drawn and measured as one.


rule unpack:
    input:
        picture=lambda wildcards: image_of(wildcards)["path"],
    output:
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
    log:
        "logs/{image}/unpack.log",
    benchmark:
        "logs/{image}/unpack.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
    resources:
        mem_mb=lambda wildcards: estimates.unpacking_memory_mb(TILED[wildcards.image][0]),
        runtime=60,
    params:
        settings=lambda wildcards: {
            "size": [TILED[wildcards.image][0].width, TILED[wildcards.image][0].height],
            "mode": image_of(wildcards)["mode"],
            "threshold": image_of(wildcards)["threshold"],
        },
        version=VERSION,
    message:
        "Unpacking {input.picture} as {wildcards.image}"
    script:
        "../../scripts/unpack.py"


rule overview:
    input:
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
    output:
        overview=report(
            "results/{image}/overview.png",
            caption="../report/resized.rst",
            category="Pictures",
            labels={"image": "{image}", "what": "taught to the networks, reduced"},
        ),
    log:
        "logs/{image}/overview.log",
    benchmark:
        "logs/{image}/overview.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
    resources:
        mem_mb=estimates.picture_memory_mb(1e6 * config["evaluate"]["max_megapixels"]),
        runtime=30,
    params:
        max_megapixels=config["evaluate"]["max_megapixels"],
        version=VERSION,
    message:
        "Reducing {wildcards.image}, to look at"
    script:
        "../../scripts/overview.py"


rule cut_tile:
    input:
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
    output:
        pixels="results/{image}/tiles/{tile}/pixels.csv",
        facts="results/{image}/tiles/{tile}/picture.json",
    log:
        "logs/{image}/tiles/{tile}/cut_tile.log",
    benchmark:
        "logs/{image}/tiles/{tile}/cut_tile.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
    resources:
        mem_mb=lambda wildcards: estimates.picture_memory_mb(
            estimates.picture_points(estimates.tile_image(tile_of(wildcards)))
        ),
        runtime=10,
    params:
        window=lambda wildcards: (
            tile_of(wildcards).left,
            tile_of(wildcards).top,
            tile_of(wildcards).right,
            tile_of(wildcards).bottom,
        ),
        version=VERSION,
    message:
        "Writing the pixels of tile {wildcards.tile} of {wildcards.image} as a table"
    script:
        "../../scripts/cut_tile.py"


use rule train_segment as train_tile_segment with:
    input:
        pixels="results/{image}/tiles/{tile}/pixels.csv",
        facts="results/{image}/tiles/{tile}/picture.json",
        earlier=earlier_tile_segment,
    output:
        segment_folder=directory("results/{image}/{field}/tiles/{tile}/segments/{segment}"),
    log:
        "logs/{image}/{field}/tiles/{tile}/train_segment_{segment}.log",
    benchmark:
        "logs/{image}/{field}/tiles/{tile}/train_segment_{segment}.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
        field=TRAINED_NAMES,
    resources:
        gpu=gpus_of,
        mem_mb=tile_memory_mb,
        runtime=tile_minutes,
    params:
        field=field_settings,
        training=training_settings,
        state="results/{image}/{field}/tiles/{tile}/.state",
        version=VERSION,
    message:
        "Teaching tile {wildcards.tile} of {wildcards.image} to {wildcards.field}, part"
        " {wildcards.segment}"


use rule train as train_tile with:
    input:
        pixels="results/{image}/tiles/{tile}/pixels.csv",
        facts="results/{image}/tiles/{tile}/picture.json",
        earlier=earlier_tile_segment,
    output:
        model="results/{image}/{field}/tiles/{tile}/model.safetensors",
        history="results/{image}/{field}/tiles/{tile}/history.csv",
        record="results/{image}/{field}/tiles/{tile}/training.json",
        checkpoints=directory("results/{image}/{field}/tiles/{tile}/checkpoints"),
    log:
        "logs/{image}/{field}/tiles/{tile}/train.log",
    benchmark:
        "logs/{image}/{field}/tiles/{tile}/train.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
        field=TRAINED_NAMES,
    resources:
        gpu=gpus_of,
        mem_mb=tile_memory_mb,
        runtime=tile_minutes,
    params:
        field=field_settings,
        training=training_settings,
        state="results/{image}/{field}/tiles/{tile}/.state",
        version=VERSION,
    message:
        "Teaching tile {wildcards.tile} of {wildcards.image} to {wildcards.field}"


rule gather_tiles:
    input:
        models=of_tiles("model.safetensors"),
        histories=of_tiles("history.csv"),
        records=of_tiles("training.json"),
        checkpoints=of_tiles("checkpoints"),
        facts=of_tiles("picture.json", "results/{image}"),
    output:
        mosaic="results/{image}/{field}/mosaic.json",
        history=report(
            "results/{image}/{field}/history.csv",
            caption="../report/history.rst",
            category="Training",
            labels={"image": "{image}", "network": "{field}"},
        ),
        record="results/{image}/{field}/training.json",
        checkpoints=directory("results/{image}/{field}/checkpoints"),
    log:
        "logs/{image}/{field}/gather_tiles.log",
    benchmark:
        "logs/{image}/{field}/gather_tiles.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
    resources:
        mem_mb=estimates.BASE_MEMORY_MB,
        runtime=30,
    params:
        tiling=lambda wildcards: {
            key: getattr(TILED[wildcards.image][1], key)
            for key in ("width", "height", "tile_px", "overlap_px")
        },
        field=field_settings,
        training=training_settings,
        version=VERSION,
    message:
        "Bringing the tiles of {wildcards.image} by {wildcards.field} together"
    script:
        "../../scripts/gather_tiles.py"


rule evaluate_tiles:
    input:
        mosaic="results/{image}/{field}/mosaic.json",
        tiles=of_tiles("model.safetensors"),
        pixels="results/{image}/pixels.npy",
        facts="results/{image}/picture.json",
        record="results/{image}/{field}/training.json",
    output:
        metrics=report(
            "results/{image}/{field}/metrics.json",
            caption="../report/metrics.rst",
            category="Numbers",
            labels={"image": "{image}", "network": "{field}"},
        ),
        comparison=directory("results/{image}/{field}/comparison"),
    log:
        "logs/{image}/{field}/evaluate_tiles.log",
    benchmark:
        "logs/{image}/{field}/evaluate_tiles.benchmark.tsv"
    wildcard_constraints:
        image=one_of(TILED),
    threads: DRAWING_THREADS
    resources:
        gpu=gpus_of,
        mem_mb=estimates.DRAWING_MEMORY_MB
        + estimates.picture_memory_mb(1e6 * config["evaluate"]["max_megapixels"]),
        runtime=lambda wildcards, threads: drawing_minutes(
            wildcards,
            (TILED[wildcards.image][0].width * TILED[wildcards.image][0].height) ** 0.5,
            threads,
        ),
    params:
        overview_megapixels=config["evaluate"]["max_megapixels"],
        field=field_settings,
        training=training_settings,
        device=device_of,
        version=VERSION,
    message:
        "Measuring how well {wildcards.field} draws {wildcards.image}"
    script:
        "../../scripts/evaluate_tiles.py"
