"""The fused passes, which keep tiles of points on the chip."""
