"""What several entry points share: running as a job, training, and reading the right network."""
