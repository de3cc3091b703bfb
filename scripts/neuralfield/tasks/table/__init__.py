"""Fitting of networks to tables: rows, task, objective, and stored model."""
