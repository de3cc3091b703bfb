"""The pass for any card, layer by layer, and what goes before and behind every pass."""
