"""What people see while the workflow runs, in place of Snakemake's own listings."""
