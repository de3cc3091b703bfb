"""Write the digits of scikit-learn as IDX files: some for training, the others held out.

    python workflow/resources/digits/write_digits.py

needs scikit-learn, which is a dependency of the tests.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import numpy as np
from sklearn.datasets import load_digits

from neuralfield.tasks.classifier.idx import write_idx
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING

RANDOM_SEED = 0
HELD_OUT_COUNT = 497
"""Number of held-out images; the others of the 1,797 are for training."""

WHITE = 16
"""Maximum value of the images in scikit-learn, which is scaled to 255."""


def main(folder: Path) -> None:
    """Write four files into a folder."""
    digits: Any = load_digits()
    images = np.rint(digits.images * (255 / WHITE)).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    # the raw words of the generator are the same in every version of NumPy
    order = np.argsort(np.random.PCG64(RANDOM_SEED).random_raw(len(labels)))
    for names, chosen in ((HELD_OUT, order[:HELD_OUT_COUNT]), (TRAINING, order[HELD_OUT_COUNT:])):
        for name, values in zip(names, (images, labels), strict=True):
            write_idx(folder / name, values[chosen])


if __name__ == "__main__":
    main(Path(__file__).parent)
