"""Fitting of fields to images: task, objective, and stored model."""
