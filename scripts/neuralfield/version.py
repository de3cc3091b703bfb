"""The version of what the package computes."""

ENGINE_VERSION = 14
"""It is raised by hand whenever the same settings would give other results than before.

Snakemake does not see imported modules, so every rule carries this number as a parameter; a golden
test fails when results change and this number does not.
"""
