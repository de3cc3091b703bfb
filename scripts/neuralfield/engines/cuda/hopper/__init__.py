"""The two passes for cards of compute capability 9.0: each a few fused kernels."""
