"""neuralfield: small neural networks fitted to images, on NumPy or CuPy."""

__version__ = "0.1.0"
