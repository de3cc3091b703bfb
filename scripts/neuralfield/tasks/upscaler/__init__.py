"""Fitting an upscaler to crops of one image: task and objective."""
