"""The engines for NVIDIA GPUs, and the stages of their steps."""
