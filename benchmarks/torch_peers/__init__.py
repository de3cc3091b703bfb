"""The same computations in PyTorch, to compare with."""
