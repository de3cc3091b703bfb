"""The engine for NVIDIA cards: what its engines and all stages of their steps share."""
