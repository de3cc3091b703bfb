"""A module that hides SciPy, as in an environment without it."""

raise ImportError("left out by tests/support/workspace.py")
