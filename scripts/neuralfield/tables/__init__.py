"""Tables of samples: reading them, scaling their columns, and networks that were taught them."""
