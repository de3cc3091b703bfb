"""HTML pages that evaluate a network on the GPU of their reader."""
