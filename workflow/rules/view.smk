# Pages that evaluate a network on the GPU of whoever opens them.


VIEWER = named_files.find_folder("scripts/neuralfield/viewing/template")


rule view:
    input:
        model=INPUTS.trained,
        weights=INPUTS.imported_weights,
        facts="results/{image}/picture.json",
        # they change with the network; other settings of `evaluate` make no new page
        resized=ancient(lambda wildcards: PLAN.training_image(wildcards.image)),
        comparison=ancient("results/{image}/{field}/comparison"),
        metrics=ancient("results/{image}/{field}/metrics.json"),
        history=INPUTS.learning("history.csv"),
        record=INPUTS.learning("training.json"),
        checkpoints=INPUTS.learning("checkpoints"),
        template=sorted(str(file) for file in VIEWER.iterdir() if file.is_file()),
    output:
        view=shown("results/{image}/{field}/view.html", "view", "Viewers"),
    log:
        "logs/{image}/{field}/view.log",
    benchmark:
        "logs/{image}/{field}/view.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=estimates.image_memory_mb(1e6 * config["evaluate"]["max_megapixels"]),
        runtime=20,
    params:
        field=PLAN.field_settings,
        training=PLAN.training_settings,
        version=VERSION,
    message:
        "Writing the viewer of {wildcards.image} by {wildcards.field}"
    script:
        "../../scripts/view.py"
