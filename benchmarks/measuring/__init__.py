"""What the benchmarks share: timing, tables, networks and images."""
