"""A few random kills; `kill_at_random.py` does a hundred of them, and also runs on a GPU."""

import random

import pytest
from kill_at_random import kill_over_finished, kill_repeatedly
from victims import FinishedWorkflow, TrainingVictim, Victim, Workflow

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("victim", "kills"),
    [(TrainingVictim("cpu", steps=800), 8), (Workflow("cpu", steps=300, small=True), 2)],
    ids=["training", "Snakemake"],
)
def test_killed_at_random_moments_and_still_the_same_bytes(tmp_path, victim: Victim, kills: int):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    tally = kill_repeatedly(victim, kills, random.Random(seed), tmp_path)
    print(tally.table())
    assert tally.kills.total() == kills
    assert tally.whole_runs >= 1


@pytest.mark.slow
def test_finished_results_are_the_same_after_kills(tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    victim = FinishedWorkflow(tmp_path, small=True)
    tally = kill_over_finished(victim, 2, random.Random(seed), aims=("train", "render"))
    print(tally.table())
    assert tally.kills.total() == 2
