# Edges of the images, made on request only: `snakemake --cores all edges`


rule edges:
    input:
        expand("results/{image}/edges.png", image=config["images"]),


rule find_edges:
    input:
        image=INPUTS.of_image(
            whole="results/{image}/resized.png", tiled="results/{image}/pixels.npy"
        ),
        facts="results/{image}/picture.json",
    output:
        edges="results/{image}/edges.png",
        raw="results/{image}/edges.npy",
    log:
        "logs/{image}/edges.log",
    benchmark:
        "logs/{image}/edges.benchmark.tsv"
    conda:
        "../envs/networks.yaml"
    resources:
        mem_mb=lambda wildcards: (
            estimates.BASE_MEMORY_MB
            if wildcards.image in PLAN.tiled
            else NEEDS.image_memory_mb(wildcards)
        ),
        runtime=30,
    params:
        settings=config["edges"],
        version=VERSION,
    message:
        "Finding the edges of {wildcards.image}"
    script:
        f"{SCRIPTS}/find_edges.py"
