# The report: one page with all images and networks.


rule report:
    input:
        metrics=for_runs("results/{image}/{field}/metrics.json", runs=PLAN.single_runs),
        resized=[PLAN.training_image(image) for image in config["images"]],
        comparisons=for_runs("results/{image}/{field}/comparison", runs=PLAN.single_runs),
        histories=for_runs(
            "results/{image}/{field}/history.csv",
            runs=PLAN.trained_runs(PLAN.single_runs),
        ),
        timelapses=PLAN.timelapses(PLAN.single_runs),
        sweep_tables=(
            [f"results/{table}.csv" for table in ("summary", "comparison", "comparison_by_image")]
            if PLAN.sweeps
            else []
        ),
        sweep_metrics=for_runs("results/{image}/{field}/metrics.json", runs=PLAN.swept_runs),
        sweep_comparisons=for_runs("results/{image}/{field}/comparison", runs=PLAN.swept_runs),
        template=PAGES / "report.html.j2",
        style=PAGE_FILES,
    output:
        report=shown("results/report.html", "report", image="all", network="all"),
    log:
        "logs/report.log",
    benchmark:
        "logs/report.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings={
            key: value for key, value in SETTINGS.items() if key not in ("tables", "classifiers")
        },
        files=PLAN.linked_files(),
        version=VERSION,
    message:
        "Writing {output}"
    script:
        f"{SCRIPTS}/report.py"
