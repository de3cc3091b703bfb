"""Fitting a network to a table: rows, task, objective, and the model on disk."""
