"""Convolution layers of the cuda engine: their sizes, kernels and launches."""
