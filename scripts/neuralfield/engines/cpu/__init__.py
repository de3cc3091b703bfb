"""The engine for processors: its steps, how they are cut, and what kernels are given."""
