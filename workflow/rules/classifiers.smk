# Classifiers of images: made by `snakemake --cores all classifiers`, not by the rule all.


from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING, find_files


rule classifiers:
    input:
        "results/classifiers/report.html",
        PLAN.classifier_products(),


rule train_classifier:
    input:
        images=local(INPUTS.images_of(TRAINING)),
        labels=local(INPUTS.labels_of(TRAINING)),
    output:
        model="results/classifiers/{classifier}/model.safetensors",
        history="results/classifiers/{classifier}/history.csv",
        record="results/classifiers/{classifier}/training.json",
        checkpoints=directory("results/classifiers/{classifier}/checkpoints"),
    log:
        "logs/classifiers/{classifier}/train_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/train_classifier.benchmark.tsv"
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.training_threads
    resources:
        **NEEDS.classifier_training,
    params:
        network=INPUTS.of_network("network"),
        training=PLAN.training_settings,
        checksums=INPUTS.of_network("checksums"),
        execution=PLAN.execution_settings,
        version=VERSION,
    message:
        "Training the classifier {wildcards.classifier}"
    script:
        f"{SCRIPTS}/train_classifier.py"


rule evaluate_classifier:
    input:
        training_images=local(INPUTS.images_of(TRAINING)),
        training_labels=local(INPUTS.labels_of(TRAINING)),
        held_out_images=local(INPUTS.images_of(HELD_OUT)),
        held_out_labels=local(INPUTS.labels_of(HELD_OUT)),
        model="results/classifiers/{classifier}/model.safetensors",
        record="results/classifiers/{classifier}/training.json",
    output:
        metrics=shown(
            "results/classifiers/{classifier}/metrics.json",
            "classifier_metrics",
            classifier="{classifier}",
            what="numbers",
        ),
        predictions="results/classifiers/{classifier}/predictions.csv",
    log:
        "logs/classifiers/{classifier}/evaluate_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/evaluate_classifier.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=NEEDS.classifier_training["mem_mb"],
        runtime=20,
    params:
        network=INPUTS.of_network("network"),
        training=PLAN.training_settings,
        checksums=INPUTS.of_network("checksums"),
        version=VERSION,
    message:
        "Evaluating the classifier {wildcards.classifier}"
    script:
        f"{SCRIPTS}/evaluate_classifier.py"


rule plot_classifier:
    input:
        images=local(INPUTS.images_of(HELD_OUT)),
        metrics="results/classifiers/{classifier}/metrics.json",
        predictions="results/classifiers/{classifier}/predictions.csv",
        history="results/classifiers/{classifier}/history.csv",
    output:
        **{
            plot: shown(
                f"results/classifiers/{{classifier}}/{plot}.png",
                "classifier_plot",
                classifier="{classifier}",
                what=what,
            )
            for plot, what in (
                ("confusion", "confusion"),
                ("wrong", "wrong answers"),
                ("curve", "learning curve"),
            )
        },
    log:
        "logs/classifiers/{classifier}/plot_classifier.log",
    benchmark:
        "logs/classifiers/{classifier}/plot_classifier.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        version=VERSION,
    message:
        "Plotting the mistakes of the classifier {wildcards.classifier}"
    script:
        f"{SCRIPTS}/plot_classifier.py"


rule report_classifiers:
    input:
        images=[
            local(str(find_files(classifier["path"], HELD_OUT)[0]))
            for classifier in config["classifiers"].values()
        ],
        metrics=INPUTS.of_each("classifiers", "metrics.json"),
        predictions=INPUTS.of_each("classifiers", "predictions.csv"),
        histories=INPUTS.of_each("classifiers", "history.csv"),
        template=PAGES / "report_classifiers.html.j2",
        style=PAGE_FILES,
    output:
        report=shown(
            "results/classifiers/report.html",
            "classifier_report",
            classifier="all",
            what="report",
        ),
    log:
        "logs/classifiers/report_classifiers.log",
    benchmark:
        "logs/classifiers/report_classifiers.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings={"classifiers": config["classifiers"]},
        version=VERSION,
    message:
        "Writing {output}"
    script:
        f"{SCRIPTS}/report_classifiers.py"
