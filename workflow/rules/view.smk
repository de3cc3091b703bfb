# Viewer pages: each evaluates a network in the browser, on the GPU of the machine that opens it.


VIEWER = SCRIPTS / "neuralfield/viewing/template"


rule view:
    input:
        model=INPUTS.stored,
        # `ancient`, because they change with the network; a change of the settings of `evaluate`
        # alone does not make the page again
        resized=ancient(lambda wildcards: PLAN.training_image(wildcards.image)),
        comparison=ancient("results/{image}/{field}/comparison"),
        history=INPUTS.learning("history.csv"),
        checkpoints=INPUTS.learning("checkpoints"),
        template=sorted(str(file) for file in VIEWER.iterdir() if file.is_file()),
    output:
        view=shown("results/{image}/{field}/view.html", "view"),
    log:
        "logs/{image}/{field}/view.log",
    benchmark:
        "logs/{image}/{field}/view.benchmark.tsv"
    conda:
        "../envs/pages.yaml"
    resources:
        mem_mb=EVALUATION_MEMORY_MB,
        runtime=20,
    params:
        version=VERSION,
    message:
        "Writing the viewer of {wildcards.image} by {wildcards.field}"
    script:
        f"{SCRIPTS}/view.py"
