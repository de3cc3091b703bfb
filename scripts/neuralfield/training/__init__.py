"""The training loop, the state on disk that it resumes from, and the files that it leaves."""
