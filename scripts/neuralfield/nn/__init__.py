"""The tape, layers, losses, optimizers, schedules and sampling on NumPy or CuPy arrays."""
