"""CUDA kernels: source files beside what describes and compiles them. Knows arrays, no fields."""
