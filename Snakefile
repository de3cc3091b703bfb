"""Fit small neural networks to images, with the settings of config.yaml; see README.md."""


include: "workflow/Snakefile"


# Snakemake does not take the default target of an included file.
use rule all as everything with:
    default_target: True
