"""The training loop, the state on disk from which it resumes, and the files that it writes."""
