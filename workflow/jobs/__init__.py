"""The plan of all jobs: files, batches, estimates, start-up, manifest of results."""
