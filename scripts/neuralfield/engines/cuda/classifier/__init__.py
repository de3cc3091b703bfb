"""The engine for classifiers: its plan, its pass, and the images of a batch."""
