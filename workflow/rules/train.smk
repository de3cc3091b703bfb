# Networks: trained on an image, or imported from a model.json; and images coded in few bits.


rule train:
    input:
        pixels="results/{image}/pixels.csv",
        facts="results/{image}/picture.json",
    output:
        model="results/{image}/{field}/model.safetensors",
        history=shown("results/{image}/{field}/history.csv", "history"),
        record="results/{image}/{field}/training.json",
        checkpoints=directory("results/{image}/{field}/checkpoints"),
    log:
        "logs/{image}/{field}/train.log",
    benchmark:
        "logs/{image}/{field}/train.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
        field=TRAINED_NAMES,
    priority: NEEDS.field_s
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.training_threads
    resources:
        **NEEDS.training(),
    params:
        field=PLAN.field_settings,
        training=PLAN.training_settings,
        execution=PLAN.execution_settings,
        version=VERSION,
    message:
        "Training {wildcards.field} on {wildcards.image}"
    script:
        f"{SCRIPTS}/train.py"


# The outputs of each of these rules are its networks' files, given by their full names, which take
# precedence over the pattern of `train`.
for batch in BATCHES:

    rule:
        name:
            f"train_batch_{batch.name}"
        input:
            pixels=INPUTS.batch_images(batch, "pixels.csv"),
            facts=INPUTS.batch_images(batch, "picture.json"),
        output:
            models=for_runs("results/{image}/{field}/model.safetensors", batch.runs),
            histories=[
                shown(
                    f"results/{run.image}/{run.field}/history.csv",
                    "history",
                    image=run.image,
                    network=run.field,
                )
                for run in batch.runs
            ],
            records=for_runs("results/{image}/{field}/training.json", batch.runs),
            checkpoints=[
                directory(name)
                for name in for_runs("results/{image}/{field}/checkpoints", batch.runs)
            ],
        log:
            f"logs/batches/{batch.name}.log",
        benchmark:
            f"logs/batches/{batch.name}.benchmark.tsv"
        priority: len(batch.runs) * NEEDS.field_s(batch.runs[0])
        conda:
            "../envs/networks.yaml"
        threads: NEEDS.training_threads(batch.runs[0])
        resources:
            **NEEDS.training(batch.runs[0], len(batch.runs)),
        params:
            batch=batch.name,
            # the batch's name is a digest of all settings that its networks depend on
            networks=untracked([PLAN.network_of(run) for run in batch.runs]),
            line=untracked(batch.line),
            version=VERSION,
        message:
            f"Training {len(batch.runs)} networks together: {batch.runs[0].field} and others like it"
        script:
            f"{SCRIPTS}/train_batch.py"


# The file of a coded image, by a training of its own; results/README.md
rule code_image:
    input:
        resized="results/{image}/resized.png",
        facts="results/{image}/picture.json",
    output:
        coded="results/{image}/{field}/image.nfz",
        decoded="results/{image}/{field}/image.png",
        history=shown("results/{image}/{field}/history.csv", "history"),
        record="results/{image}/{field}/training.json",
        checkpoints=directory("results/{image}/{field}/checkpoints"),
    log:
        "logs/{image}/{field}/code_image.log",
    benchmark:
        "logs/{image}/{field}/code_image.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
        field=one_of(PLAN.coded),
    priority: NEEDS.coding_s
    conda:
        "../envs/networks.yaml"
    threads: NEEDS.training_threads
    resources:
        **NEEDS.coding(),
    params:
        target=INPUTS.of_network("target"),
        training=PLAN.training_settings,
        version=VERSION,
    message:
        "Coding {wildcards.image} in few bits as {wildcards.field}"
    script:
        f"{SCRIPTS}/code_image.py"


rule import_weights:
    input:
        weights=local(INPUTS.of_network("path")),
        facts="results/{image}/picture.json",
    output:
        model="results/{image}/{field}/model.safetensors",
    log:
        "logs/{image}/{field}/import_weights.log",
    benchmark:
        "logs/{image}/{field}/import_weights.benchmark.tsv"
    wildcard_constraints:
        image=one_of(PLAN.whole),
        field=one_of(PLAN.imported),
    conda:
        "../envs/networks.yaml"
    resources:
        mem_mb=estimates.BASE_MEMORY_MB,
        runtime=10,
    params:
        version=VERSION,
    message:
        "Importing the weights of {wildcards.field} for {wildcards.image}"
    script:
        f"{SCRIPTS}/import_weights.py"
