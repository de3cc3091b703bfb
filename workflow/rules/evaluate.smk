# Compares a network's renders with its training image, and with the source at the source's size.


rule evaluate:
    input:
        model=INPUTS.stored,
        facts="results/{image}/picture.json",
        resized="results/{image}/resized.png",
        source=local(lambda wildcards: config["images"][wildcards.image]["path"]),
        record=INPUTS.learning("training.json"),
    output:
        metrics=shown("results/{image}/{field}/metrics.json", "metrics"),
        comparison=directory("results/{image}/{field}/comparison"),
    log:
        "logs/{image}/{field}/evaluate.log",
    benchmark:
        "logs/{image}/{field}/evaluate.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
    # evaluations run before time-lapses, which show the measured PSNR
    priority: 1
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.rendering_threads
    resources:
        **NEEDS.rendering(1e6 * config["evaluate"]["max_megapixels"], mem_mb=NEEDS.source_memory_mb),
    params:
        settings=PLAN.image_settings("threshold", "page"),
        max_megapixels=config["evaluate"]["max_megapixels"],
        max_source_megapixels=config["max_megapixels"],
        field=PLAN.field_settings,
        training=PLAN.training_settings,
        device=PLAN.device_of,
        version=VERSION,
    message:
        "Evaluating {wildcards.field} on {wildcards.image}"
    script:
        f"{SCRIPTS}/evaluate.py"


rule summarize:
    input:
        metrics=for_runs("results/{image}/{field}/metrics.json", PLAN.runs),
    output:
        summary=shown("results/summary.csv", "summary", image="all", network="all"),
    log:
        "logs/summarize.log",
    benchmark:
        "logs/summarize.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=estimates.BASE_MEMORY_MB,
        runtime=10,
    params:
        labels=sweeps.labels(PLAN.runs, PLAN.sweeps, config["fields"]),
        version=VERSION,
    message:
        "Writing all numbers to {output}"
    script:
        f"{SCRIPTS}/summarize.py"


if PLAN.sweeps:

    rule compare:
        input:
            summary="results/summary.csv",
        output:
            comparison=shown("results/comparison.csv", "comparison", image="all", network="all"),
            by_image=shown(
                "results/comparison_by_image.csv",
                "comparison",
                image="each",
                network="all",
            ),
        log:
            "logs/compare.log",
        benchmark:
            "logs/compare.benchmark.tsv"
        conda:
            "../envs/networks.yaml"
        resources:
            mem_mb=estimates.BASE_MEMORY_MB,
            runtime=10,
        params:
            sweeps=[sweep.name for sweep in PLAN.sweeps],
            version=VERSION,
        message:
            "Comparing the networks of sweeps in {output.comparison}"
        script:
            f"{SCRIPTS}/compare.py"
