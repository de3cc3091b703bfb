# Networks of tables of samples: made by `snakemake --cores all tables`, not by the rule all.


rule tables:
    input:
        "results/tables/report.html",
        PLAN.table_products(),


rule train_table:
    input:
        table=local(INPUTS.of_network("path")),
    output:
        model="results/tables/{network}/model.safetensors",
        history="results/tables/{network}/history.csv",
        record="results/tables/{network}/training.json",
        checkpoints=directory("results/tables/{network}/checkpoints"),
    log:
        "logs/tables/{network}/train_table.log",
    benchmark:
        "logs/tables/{network}/train_table.benchmark.tsv"
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.training_threads
    resources:
        **NEEDS.table_training,
    params:
        settings=PLAN.table_task_settings,
        training=PLAN.training_settings,
        execution=PLAN.execution_settings,
        version=VERSION,
    message:
        "Training a network on the table {wildcards.network}"
    script:
        f"{SCRIPTS}/train_table.py"


rule evaluate_table:
    input:
        table=local(INPUTS.of_network("path")),
        model="results/tables/{network}/model.safetensors",
        record="results/tables/{network}/training.json",
    output:
        metrics=shown(
            "results/tables/{network}/metrics.json",
            "table_metrics",
            table="{network}",
            what="numbers",
        ),
        predictions="results/tables/{network}/predictions.csv",
    log:
        "logs/tables/{network}/evaluate_table.log",
    benchmark:
        "logs/tables/{network}/evaluate_table.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=NEEDS.table_training["mem_mb"],
        runtime=10,
    params:
        settings=PLAN.table_task_settings,
        training=PLAN.training_settings,
        truth=lambda wildcards: PLAN.network_of(wildcards).get("truth", []),
        remembers=lambda wildcards: bool(PLAN.network_of(wildcards)["sizes"]),
        version=VERSION,
    message:
        "Evaluating the network of the table {wildcards.network}"
    script:
        f"{SCRIPTS}/evaluate_table.py"


rule plot_table:
    input:
        table=local(INPUTS.of_network("path")),
        model="results/tables/{network}/model.safetensors",
        sizes=lambda wildcards: INPUTS.table_sizes(wildcards.network),
    output:
        plot=shown(
            "results/tables/{network}/plot.png",
            "table_plot",
            table="{network}",
            what="plot",
        ),
    log:
        "logs/tables/{network}/plot_table.log",
    benchmark:
        "logs/tables/{network}/plot_table.benchmark.tsv"
    wildcard_constraints:
        network=one_of(config["tables"]),
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=NEEDS.table_training["mem_mb"],
        runtime=10,
    params:
        settings=PLAN.table_task_settings,
        training=PLAN.training_settings,
        truth=lambda wildcards: PLAN.network_of(wildcards).get("truth", []),
        version=VERSION,
    message:
        "Plotting the predictions of the network of the table {wildcards.network}"
    script:
        f"{SCRIPTS}/plot_table.py"


rule report_tables:
    input:
        tables=[local(table["path"]) for table in config["tables"].values()],
        models=INPUTS.of_each("tables", "model.safetensors"),
        metrics=INPUTS.of_each("tables", "metrics.json"),
        histories=INPUTS.of_each("tables", "history.csv"),
        sizes=[name for table in config["tables"] for name in INPUTS.table_sizes(table)],
        template=PAGES / "report_tables.html.j2",
        style=PAGE_FILES,
    output:
        report=shown("results/tables/report.html", "table_report", table="all", what="report"),
    log:
        "logs/tables/report_tables.log",
    benchmark:
        "logs/tables/report_tables.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings={"tables": config["tables"]},
        version=VERSION,
    message:
        "Writing {output}"
    script:
        f"{SCRIPTS}/report_tables.py"
