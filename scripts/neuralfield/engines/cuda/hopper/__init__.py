"""The two passes for GPUs of compute capability 9.0: each a few fused kernels."""
