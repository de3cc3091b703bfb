"""The package as programs and notebooks use it: `import neuralfield as nf`."""
