"""Fitting a field to an image: task, objective, and the model on disk."""
