"""What has the instructions of compute capability 9.0 alone: the counterpart of `warps/`."""
