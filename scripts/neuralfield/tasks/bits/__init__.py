"""Fitting of latents and small networks to an image, by squared error and bits together."""
