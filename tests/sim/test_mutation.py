"""The checkers find deliberate bugs: one that is built in shows within a few seeds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import magnetar
from tests.sim.mutation import MUTATIONS, Mutation

SEEDS = 200


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_deliberate_bug_is_found(mutation: Mutation, tmp_path: Path) -> None:
    package = tmp_path / "magnetar"
    shutil.copytree(Path(magnetar.__file__).parent, package)
    mutation.apply(package)
    command = [sys.executable, "-m", "magnetar.testing.simulation.main", str(mutation.seed)]
    if mutation.focus:
        command += ["--focus", mutation.focus]
    if mutation.has_pauses:
        command.append("--pauses")
    done = subprocess.run(
        [
            *command,
            "--count",
            str(SEEDS),
            "--first",
            "--bookies" if mutation.on_bookies else "--files",
        ],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, f"{mutation.name} was not found: {done.stdout}{done.stderr}"
    assert "1 seed failed" in done.stdout, done.stdout + done.stderr
