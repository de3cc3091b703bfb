"""A few random kills; `kill_at_random.py` does a hundred of them, and runs on a card too."""

import random

import pytest
from kill_at_random import kill_repeatedly
from victims import Training, Victim, Workflow

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("victim", "kills"),
    [(Training("cpu", steps=800), 8), (Workflow("cpu", steps=300, small=True), 2)],
    ids=["training", "Snakemake"],
)
def test_killed_at_random_moments_and_still_the_same_bytes(tmp_path, victim: Victim, kills: int):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    tally = kill_repeatedly(victim, kills, tmp_path, random.Random(seed))
    print(tally.table())
    assert tally.kills.total() == kills
    assert tally.whole_runs >= 1
