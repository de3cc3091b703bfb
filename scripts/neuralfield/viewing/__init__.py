"""Pages that evaluate a network on the GPU of whoever opens them."""
