# Everything on one page.


rule report:
    input:
        metrics=for_runs("results/{image}/{field}/metrics.json"),
        resized=[taught(image) for image in config["images"]],
        comparisons=for_runs("results/{image}/{field}/comparison"),
        histories=for_runs("results/{image}/{field}/history.csv", runs=TRAININGS),
        films=films(),
        summary="results/summary.csv",
        template=workflow_file("workflow/report/report.html.j2"),
        style=[
            workflow_file(f"workflow/report/{file}")
            for file in (
                "report_compare.html.j2",
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
        settings=config,
        version=VERSION,
    message:
        "Writing {output}"
    script:
        "../../scripts/report.py"
