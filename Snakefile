"""Fit small neural networks to images, with the settings of config.yaml; see README.md."""


include: "workflow/Snakefile"


# the default target, because Snakemake does not take that of an included file
rule everything:
    input:
        rules.all.input,
