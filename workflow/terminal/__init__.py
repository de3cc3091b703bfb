"""Display of the workflow's progress on the terminal, instead of Snakemake's own messages."""
