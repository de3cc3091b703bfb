"""The engine for CPUs: its steps, their division into pieces, and the kernels' arguments."""
