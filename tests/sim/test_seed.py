"""A cluster of our own brokers and clients under random faults keeps its promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from magnetar.testing.simulation.tally import NAMES

SEEDS = 500
AT_A_TIME = 25
EXPLORED = (623, 1174, 1294, 1595, 1794, 2441, 2786, 3112, 3309)
"""Beyond the others: each stood for a bug when it was found."""


COMMAND = [sys.executable, "-m", "magnetar.testing.simulation.main"]
# Else the command starts itself again with it, and loads everything twice.
ENVIRONMENT = os.environ | {"PYTHONHASHSEED": "0"}


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_no_seed_shows_a_violation(first: int) -> None:
    """In a process of its own: what a killed broker leaves standing is no concern of the tests."""
    done = simulate(str(first), "--count", str(AT_A_TIME))
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) faults, (\d+) messages", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) > AT_A_TIME and int(found[2]) > 20 * AT_A_TIME
    for name in NAMES:
        came_about = re.search(rf"(\d+) {name}\b", done.stdout)
        assert came_about is not None and int(came_about[1]), f"no {name}: {done.stdout}"


def test_no_seed_shows_a_violation_where_brokers_stand_still_longer_than_their_sessions() -> None:
    done = simulate("0", "--count", str(AT_A_TIME), "--bookies", "--pauses")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_seed_that_found_a_bug_shows_a_violation() -> None:
    for seed in EXPLORED:
        done = simulate(str(seed))
        assert done.returncode == 0, done.stdout + done.stderr


def replay(seed: int) -> str:
    done = simulate(str(seed))
    found = re.search(r"fingerprint ([0-9a-f]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return found[1]


@pytest.mark.parametrize("seed", [3, 77])
def test_a_seed_takes_the_same_steps_in_every_process(seed: int) -> None:
    assert replay(seed) == replay(seed)


def test_other_seeds_take_other_steps() -> None:
    assert replay(1) != replay(2)
