"""The pass for any GPU, layer by layer, with its hash grids and complex numbers."""
