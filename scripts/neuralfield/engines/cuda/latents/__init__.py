"""Kernels that fit latents and networks of coded images on GPUs; see `neuralfield.tasks.bits`."""
