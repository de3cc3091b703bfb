"""The command `neuralfield`: a thin layer over `neuralfield.api`."""
