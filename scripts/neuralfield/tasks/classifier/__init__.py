"""Training a classifier of images: data, task, objective, and the model on disk."""
