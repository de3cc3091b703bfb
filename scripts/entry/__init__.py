"""Parts that entry points share: running as a job, training, records, and reading networks."""
