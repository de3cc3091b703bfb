"""Training of image classifiers: data, task, objective, and stored model."""
