"""Writing of IDX files, the format of MNIST; see `neuralfield.tasks.classifier.idx`."""

import os
import struct
from pathlib import Path

import numpy as np


def write_idx(path: str | os.PathLike, values: np.ndarray) -> None:
    """Write an array of bytes as an uncompressed IDX file."""
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    Path(path).write_bytes(header + np.ascontiguousarray(values, np.uint8).tobytes())
