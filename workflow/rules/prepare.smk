# Conversion of an image to the table of pixels that networks are trained on.


rule resize:
    input:
        image=local(lambda wildcards: config["images"][wildcards.image]["path"]),
    output:
        resized=shown(
            "results/{image}/resized.png",
            "resized",
            image="{image}",
            network="(training image)",
        ),
        facts="results/{image}/picture.json",
    log:
        "logs/{image}/resize.log",
    benchmark:
        "logs/{image}/resize.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
    priority: BEFORE_TRAININGS
    conda:
        "../envs/networks.yaml"
    threads: 2
    resources:
        mem_mb=NEEDS.source_memory_mb,
        runtime=10,
    params:
        settings=PLAN.image_settings("size", "mode", "threshold", "filter", "page", "restore"),
        max_megapixels=config["max_megapixels"],
        version=VERSION,
    message:
        "Reading the image {wildcards.image}"
    script:
        f"{SCRIPTS}/resize.py"


rule encode:
    input:
        resized="results/{image}/resized.png",
        facts="results/{image}/picture.json",
    output:
        pixels="results/{image}/pixels.csv",
    log:
        "logs/{image}/encode.log",
    benchmark:
        "logs/{image}/encode.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
    priority: BEFORE_TRAININGS
    conda:
        "../envs/networks.yaml"
    resources:
        mem_mb=NEEDS.image_memory_mb,
        runtime=10,
    params:
        version=VERSION,
    message:
        "Writing the pixels of {wildcards.image} as a table"
    script:
        f"{SCRIPTS}/encode.py"


# Made on request only: `snakemake results/lion_cub/decoded.png`
rule decode:
    input:
        pixels="results/{image}/pixels.csv",
        facts="results/{image}/picture.json",
    output:
        decoded="results/{image}/decoded.png",
    log:
        "logs/{image}/decode.log",
    benchmark:
        "logs/{image}/decode.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
    conda:
        "../envs/networks.yaml"
    resources:
        mem_mb=NEEDS.image_memory_mb,
        runtime=10,
    params:
        version=VERSION,
    message:
        "Converting the pixel table of {wildcards.image} back into an image"
    script:
        f"{SCRIPTS}/decode.py"
