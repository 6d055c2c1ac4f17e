"""The command: its trace, and that it starts itself again where sets have another order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os
from magnetar.testing.simulation.main import main

print(os.environ.get("PYTHONHASHSEED"), flush=True)
raise SystemExit(main())
"""


def simulate(*arguments: str, hash_seed: str | None = "0") -> tuple[list[str], list[str]]:
    """With which seeds of hashes the command was begun, and what it said."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "5", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    head = lines.index("seed 5")
    return lines[:head], lines[head:]


def test_the_command_starts_itself_again_unless_the_order_of_sets_is_the_fixed_one() -> None:
    begun, said = simulate()
    assert begun == ["0"]
    assert simulate(hash_seed="77") == (["77", "0"], said)
    assert simulate(hash_seed=None) == (["None", "0"], said)


def test_a_trace_has_the_plan_and_every_step_in_the_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    _, said = simulate("--trace", str(path), hash_seed=None)
    lines = path.read_text().splitlines()
    assert lines[0] == said[0] == "seed 5"
    head = next(number for number, line in enumerate(lines) if line.startswith("    "))
    assert lines[:head] == said[:-1]
    steps = [re.fullmatch(r" *(\d+\.\d{6}) (\w+) .*", line) for line in lines[head:]]
    assert all(step is not None for step in steps), "no seed of ours shows a violation"
    times = [float(step[1]) for step in steps if step is not None]
    assert times == sorted(times)
    kinds = {step[2] for step in steps if step is not None}
    assert {"Sent", "Confirmed", "Dispatched", "Received", "Acknowledged"} <= kinds
    assert "Stored" not in kinds


def test_a_trace_shows_writes_of_the_metadata_when_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    simulate("--trace", str(path), "--metadata")
    assert re.search(r" Stored +/namespace/", path.read_text())
