"""Shows people the workflow's progress, in place of Snakemake's own listings."""
