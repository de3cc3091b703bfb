# Renders at other sizes, and time-lapses of trainings.


# Makes all renders of a network in one job. A render that was made before from the same network
# with the same settings is restored, so that after a size is added only that size is rendered.
rule render:
    input:
        model=INPUTS.trained,
    output:
        renders=[
            shown(
                f"results/{{image}}/{{field}}/{name}.png",
                "render",
                image="{image}",
                network="{field}",
                pixels=name.partition("_")[2],
            )
            for name in RENDERS
        ],
    log:
        "logs/{image}/{field}/render.log",
    benchmark:
        "logs/{image}/{field}/render.benchmark.tsv"
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.rendering_threads
    resources:
        **NEEDS.rendering(sum(part["size"] ** 2 for part in RENDERS.values())),
    params:
        parts=list(RENDERS.values()),
        settings=RENDERING,
        device=PLAN.device_of,
        version=VERSION,
    message:
        "Rendering {wildcards.image} by {wildcards.field}"
    script:
        f"{SCRIPTS}/render.py"


# Made on request only: `snakemake results/lion_cub/siren/render_3000.png`
use rule render as render_other_size with:
    output:
        renders="results/{image}/{field}/render_{size}.png",
    log:
        "logs/{image}/{field}/render_{size}.log",
    benchmark:
        "logs/{image}/{field}/render_{size}.benchmark.tsv"
    wildcard_constraints:
        size=rf"(?!(?:{one_of(map(str, config['render']['sizes']))})\.png)[1-9]\d*",
    resources:
        **NEEDS.rendering(NEEDS.square_pixels),
    params:
        parts=lambda wildcards: [{"size": int(wildcards.size), "box": [0, 0, 1, 1]}],
    message:
        "Rendering {wildcards.image} by {wildcards.field}, {wildcards.size} pixels"


# Made on request only, for drawings: `snakemake results/lion_cub/siren/drawing.svg`
rule trace_drawing:
    input:
        model=INPUTS.trained,
    output:
        drawing="results/{image}/{field}/drawing.svg",
    log:
        "logs/{image}/{field}/drawing.log",
    benchmark:
        "logs/{image}/{field}/drawing.benchmark.tsv"
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.rendering_threads
    resources:
        **NEEDS.rendering(
            lambda wildcards: 36 * estimates.image_pixels(PLAN.image_of(wildcards)),
            mem_mb=lambda wildcards: estimates.memory_mb(
                4000 * estimates.image_pixels(PLAN.image_of(wildcards))
            ),
        ),
    params:
        device=PLAN.device_of,
        version=VERSION,
    message:
        "Tracing {wildcards.image} by {wildcards.field}"
    script:
        f"{SCRIPTS}/trace_drawing.py"


# Renders of any size in bounded memory: the page to zoom into an image with tiles and, on request,
# other sizes, like `snakemake results/lion_cub/siren/pyramid_8192` or `.../render_8192.tif`
rule pyramid:
    input:
        model=INPUTS.trained,
        facts="results/{image}/picture.json",
        template=[
            SCRIPTS / "neuralfield/viewing/template" / name
            for name in ("pyramid.html.j2", "pointers.js", "pyramid.js")
        ],
    output:
        pyramid=directory("results/{image}/{field}/pyramid"),
    log:
        "logs/{image}/{field}/pyramid.log",
    benchmark:
        "logs/{image}/{field}/pyramid.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    threads: NEEDS.rendering_threads
    resources:
        **NEEDS.rendering(NEEDS.square_pixels),
    params:
        settings={key: RENDERING[key] for key in ("samples", "bit_depth")},
        device=PLAN.device_of,
        version=VERSION,
    message:
        "Rendering {wildcards.image} by {wildcards.field} as a zoomable page"
    script:
        f"{SCRIPTS}/pyramid.py"


use rule pyramid as pyramid_other_size with:
    output:
        pyramid=directory("results/{image}/{field}/pyramid_{size}"),
    log:
        "logs/{image}/{field}/pyramid_{size}.log",
    benchmark:
        "logs/{image}/{field}/pyramid_{size}.benchmark.tsv"


use rule pyramid as pyramid_tiff with:
    output:
        tiff="results/{image}/{field}/render_{size}.tif",
    log:
        "logs/{image}/{field}/render_{size}_tiff.log",
    benchmark:
        "logs/{image}/{field}/render_{size}_tiff.benchmark.tsv"


if config["timelapse"]["formats"]:
    TIMELAPSE_PIXELS = config["timelapse"]["frames"] * config["timelapse"]["size"] ** 2

    rule timelapse:
        input:
            model=INPUTS.stored,
            history="results/{image}/{field}/history.csv",
            # inputs for the last frame's PSNR: for a large image it takes long to measure, and is
            # read from the metrics; it depends on the network alone, so that a change of the
            # settings of `evaluate` does not make the time-lapse again
            resized=INPUTS.of_image(whole="results/{image}/resized.png"),
            metrics=ancient(INPUTS.of_image(tiled="results/{image}/{field}/metrics.json")),
            checkpoints="results/{image}/{field}/checkpoints",
        output:
            outputs=[
                shown(
                    f"results/{{image}}/{{field}}/timelapse.{format}",
                    "timelapse",
                    image="{image}",
                    network="{field}",
                    format=format,
                )
                for format in config["timelapse"]["formats"]
            ],
        log:
            "logs/{image}/{field}/timelapse.log",
        benchmark:
            "logs/{image}/{field}/timelapse.benchmark.tsv"
        conda:
            "../envs/pages.yaml"
        threads: NEEDS.rendering_threads
        resources:
            **NEEDS.rendering(TIMELAPSE_PIXELS, mem_mb=NEEDS.timelapse_memory_mb),
        params:
            # Snakemake compares the values of params without their names; `settings` has the names
            settings=config["timelapse"],
            size=config["timelapse"]["size"],
            frames=config["timelapse"]["frames"],
            frames_per_second=config["timelapse"]["frames_per_second"],
            label=config["timelapse"]["label"],
            device=PLAN.device_of,
            version=VERSION,
        message:
            "Making the time-lapse of {wildcards.field} on {wildcards.image}"
        script:
            f"{SCRIPTS}/timelapse.py"
