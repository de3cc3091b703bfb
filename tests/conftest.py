"""What all tests share: other random seeds, where `tests/other_machines.py` asks for them."""

import os

import numpy as np

_OTHER_SEED = int(os.environ.get("NEURALFIELD_TEST_SEED", "0"))

if _OTHER_SEED:
    _default_rng = np.random.default_rng

    def _with_other_seed(seed=None):
        """The usual generator with another seed: test data and initial weights are others."""
        return _default_rng([_OTHER_SEED, seed] if isinstance(seed, int) else seed)

    np.random.default_rng = _with_other_seed
