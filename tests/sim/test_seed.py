"""A cluster of our own brokers and clients under random faults keeps its promises."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from magnetar.testing.simulation.main import judge

SEEDS = 500
AT_A_TIME = 25


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_no_seed_shows_a_violation(first: int) -> None:
    verdicts = [judge(seed) for seed in range(first, first + AT_A_TIME)]
    failed = {each.seed: each.violations[:3] for each in verdicts if each.violations}
    assert not failed, f"replay with magnetar-sim {next(iter(failed))}: {failed}"
    assert sum(each.faults for each in verdicts) > AT_A_TIME
    assert sum(each.messages for each in verdicts) > 20 * AT_A_TIME


def replay(seed: int) -> str:
    command = [sys.executable, "-m", "magnetar.testing.simulation.main", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"fingerprint ([0-9a-f]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return found[1]


@pytest.mark.parametrize("seed", [3, 10, 77])
def test_a_seed_takes_the_same_steps_in_every_process(seed: int) -> None:
    assert replay(seed) == replay(seed)


def test_other_seeds_take_other_steps() -> None:
    assert replay(1) != replay(2)
