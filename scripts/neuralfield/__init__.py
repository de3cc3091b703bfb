"""neuralfield: small networks that learn to draw a picture, on NumPy or CuPy."""

__version__ = "0.1.0"
