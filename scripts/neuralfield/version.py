"""The version of what the package computes."""

ENGINE_VERSION = 18
"""Version of the results; raised by hand whenever the same settings give different results.

Snakemake does not track imported modules, so every rule has this number as a parameter; a golden
test fails when results change and this number does not.
"""
