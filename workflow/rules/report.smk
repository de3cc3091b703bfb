# Everything on one page.


rule report:
    input:
        metrics=for_runs("results/{image}/{field}/metrics.json", runs=SINGLE_RUNS),
        resized=[taught(image) for image in config["images"]],
        comparisons=for_runs("results/{image}/{field}/comparison", runs=SINGLE_RUNS),
        histories=for_runs(
            "results/{image}/{field}/history.csv",
            runs=[run for run in SINGLE_RUNS if run.field in TRAINED],
        ),
        films=films(SINGLE_RUNS),
        summary="results/summary.csv",
        sweep_tables=(
            [f"results/{table}.csv" for table in ("summary", "comparison", "comparison_by_image")]
            if SWEEPS
            else []
        ),
        sweep_metrics=for_runs("results/{image}/{field}/metrics.json", runs=SWEPT_RUNS),
        sweep_comparisons=for_runs("results/{image}/{field}/comparison", runs=SWEPT_RUNS),
        template=workflow_file("workflow/report/report.html.j2"),
        style=[
            workflow_file(f"workflow/report/{file}")
            for file in (
                "report_page.html.j2",
                "report_compare.html.j2",
                "report_sweep.html.j2",
                "report_table.html.j2",
                "report.css",
                "report.js",
            )
        ],
    output:
        report(
            "results/report.html",
            caption="../report/report.rst",
            category="Report",
            labels={"image": "all", "network": "all"},
        ),
    log:
        "logs/report.log",
    benchmark:
        "logs/report.benchmark.tsv"
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings={
            key: value for key, value in SETTINGS.items() if key not in ("tables", "classifiers")
        },
        version=VERSION,
    message:
        "Writing {output}"
    script:
        "../../scripts/report.py"
