# Pictures to tell apart: made by `snakemake --cores all classifiers`, never by the rule all.


rule classifiers:
    input:
        "results/classifiers/report.html",
        every_classifier("results/classifiers/{classifier}/{product}", product=CLASSIFIER_PRODUCTS),
        incomplete_again(classifier_folders),


rule train_classifier:
    input:
        pictures=taught_pictures,
        labels=taught_labels,
    output:
        model="results/classifiers/{classifier}/model.safetensors",
        history="results/classifiers/{classifier}/history.csv",
        record="results/classifiers/{classifier}/training.json",
        checkpoints=directory("results/classifiers/{classifier}/checkpoints"),
    log:
        "logs/classifiers/{classifier}/train_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/train_classifier.benchmark.tsv"
    wildcard_constraints:
        classifier=one_of(config["classifiers"]),
    threads: classifier_threads
    resources:
        gpu=classifier_gpus,
        mem_mb=classifier_memory_mb,
        runtime=classifier_minutes,
    params:
        network=lambda wildcards: classifier_of(wildcards)["network"],
        training=classifier_training,
        checksums=lambda wildcards: classifier_of(wildcards)["checksums"],
        state="results/classifiers/{classifier}/.state",
        version=VERSION,
    message:
        "Teaching {wildcards.classifier} to tell its pictures apart"
    script:
        "../../scripts/train_classifier.py"


rule evaluate_classifier:
    input:
        taught_pictures=taught_pictures,
        taught_labels=taught_labels,
        held_out_pictures=held_out_pictures,
        held_out_labels=held_out_labels,
        model="results/classifiers/{classifier}/model.safetensors",
        record="results/classifiers/{classifier}/training.json",
    output:
        metrics=report(
            "results/classifiers/{classifier}/metrics.json",
            caption="../report/classifier_metrics.rst",
            category="Classifiers",
            labels={"classifier": "{classifier}", "what": "numbers"},
        ),
        predictions="results/classifiers/{classifier}/predictions.csv",
    log:
        "logs/classifiers/{classifier}/evaluate_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/evaluate_classifier.benchmark.tsv"
    wildcard_constraints:
        classifier=one_of(config["classifiers"]),
    resources:
        mem_mb=classifier_memory_mb,
        runtime=20,
    params:
        checksums=lambda wildcards: classifier_of(wildcards)["checksums"],
        version=VERSION,
    message:
        "Measuring how well {wildcards.classifier} tells its pictures apart"
    script:
        "../../scripts/evaluate_classifier.py"


rule plot_classifier:
    input:
        pictures=held_out_pictures,
        metrics="results/classifiers/{classifier}/metrics.json",
        predictions="results/classifiers/{classifier}/predictions.csv",
        history="results/classifiers/{classifier}/history.csv",
    output:
        confusion=report(
            "results/classifiers/{classifier}/confusion.png",
            caption="../report/classifier_plot.rst",
            category="Classifiers",
            labels={"classifier": "{classifier}", "what": "confusion"},
        ),
        wrong=report(
            "results/classifiers/{classifier}/wrong.png",
            caption="../report/classifier_plot.rst",
            category="Classifiers",
            labels={"classifier": "{classifier}", "what": "wrong answers"},
        ),
        curve=report(
            "results/classifiers/{classifier}/curve.png",
            caption="../report/classifier_plot.rst",
            category="Classifiers",
            labels={"classifier": "{classifier}", "what": "learning curve"},
        ),
    log:
        "logs/classifiers/{classifier}/plot_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/plot_classifier.benchmark.tsv"
    wildcard_constraints:
        classifier=one_of(config["classifiers"]),
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        version=VERSION,
    message:
        "Drawing what {wildcards.classifier} mistakes for what"
    script:
        "../../scripts/plot_classifier.py"


rule report_classifiers:
    input:
        pictures=[
            str(find_files(classifier["path"], HELD_OUT)[0])
            for classifier in config["classifiers"].values()
        ],
        metrics=every_classifier("results/classifiers/{classifier}/metrics.json"),
        predictions=every_classifier("results/classifiers/{classifier}/predictions.csv"),
        histories=every_classifier("results/classifiers/{classifier}/history.csv"),
        template=workflow_file("workflow/report/report_classifiers.html.j2"),
        style=[
            workflow_file(f"workflow/report/{file}")
            for file in ("report_page.html.j2", "report.css", "report.js")
        ],
    output:
        report(
            "results/classifiers/report.html",
            caption="../report/report_classifiers.rst",
            category="Classifiers",
            labels={"classifier": "all", "what": "report"},
        ),
    log:
        "logs/classifiers/report_classifiers.log",
    benchmark:
        "logs/classifiers/report_classifiers.benchmark.tsv"
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings={"classifiers": config["classifiers"]},
        version=VERSION,
    message:
        "Writing {output}"
    script:
        "../../scripts/report_classifiers.py"
