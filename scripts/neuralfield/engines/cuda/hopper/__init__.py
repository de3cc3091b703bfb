"""The instructions of compute capability 9.0 alone; those of other GPUs are in `warps/`."""
