"""The same computations in PyTorch, for comparison."""
