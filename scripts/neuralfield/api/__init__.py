"""The public interface for programs and notebooks: `import neuralfield as nf`."""
