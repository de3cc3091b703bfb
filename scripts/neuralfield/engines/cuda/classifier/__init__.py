"""The engine for classifiers: its plan, its pass, and the pictures of a batch."""
