"""The plan of all jobs: files, batches, estimates, start-up, failures, manifest of results."""
