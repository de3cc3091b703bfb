"""What concerns jobs: batches, estimates, start-up, failures and the manifest of results."""
