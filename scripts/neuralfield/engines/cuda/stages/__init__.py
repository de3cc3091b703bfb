"""The stages before and after the pass of a step: sampling, and the update."""
