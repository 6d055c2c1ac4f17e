"""A test that fails fails the run; only CI repeats it, once, and names what it then calls flaky."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

SUITE = """
from pathlib import Path
import pytest

@pytest.mark.xdist_group("shared")
def test_a_flaky_one():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")

def test_a_sound_one():
    pass
"""
SERVER = """
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def server():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("did not start")

@pytest.mark.parametrize("number", range(20))
def test_a_server(server, number):
    pass
"""
BROKEN = """
def test_a_broken_one():
    raise AssertionError("always")
"""


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )


def fail_once(folder: Path, suite: str, *arguments: str) -> None:
    (folder / "test_suite.py").write_text(suite)
    assert call(folder, "-m", "pytest", "-q", *arguments).returncode == 1


def test_make_test_runs_every_test_once() -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert len(re.findall(r"-m pytest", planned)) == 1
    assert not re.search(r"last-failed|reruns|retry|\|\|", planned)


def test_a_test_that_passes_when_repeated_is_called_flaky(tmp_path: Path) -> None:
    """Also one of a group: the run that repeats it knows no groups."""
    fail_once(tmp_path, SUITE, "-n", "1", "--dist", "loadgroup")
    repeated = call(tmp_path, str(ROOT / "tools/retry.py"))
    assert repeated.returncode == 0, repeated.stdout
    assert re.findall(r"^flaky: .*$", repeated.stdout, re.M) == [
        "flaky: test_suite.py::test_a_flaky_one"
    ]


def test_a_test_that_fails_twice_has_failed(tmp_path: Path) -> None:
    fail_once(tmp_path, SUITE + BROKEN)
    repeated = call(tmp_path, str(ROOT / "tools/retry.py"))
    assert repeated.returncode == 1
    assert "flaky: test_suite.py::test_a_flaky_one" in repeated.stdout
    assert "flaky: test_suite.py::test_a_broken_one" not in repeated.stdout


def test_a_server_that_fails_to_start_once_does_not_fail_the_run_by_the_number_of_its_tests(
    tmp_path: Path,
) -> None:
    fail_once(tmp_path, SERVER)
    repeated = call(tmp_path, str(ROOT / "tools/retry.py"))
    assert repeated.returncode == 0, repeated.stdout
    assert repeated.stdout.count("flaky: ") == 20


def test_a_run_that_failed_without_a_failed_test_is_not_repeated(tmp_path: Path) -> None:
    assert call(tmp_path, str(ROOT / "tools/retry.py")).returncode == 1
    (tmp_path / "test_suite.py").write_text("import nothing_of_this_name\n")
    assert call(tmp_path, "-m", "pytest", "-q").returncode == 2
    repeated = call(tmp_path, str(ROOT / "tools/retry.py"))
    assert repeated.returncode == 1
    assert "not a test, and so not run again: test_suite.py" in repeated.stderr


def test_repeated_runs_count_the_tests_that_failed_in_some_of_them(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    counted = call(tmp_path, str(ROOT / "tools/flaky.py"), "--runs", "2")
    assert counted.returncode == 1
    assert "flaky: 1 of 2: test_suite::test_a_flaky_one" in counted.stdout
    assert "flaky: 1 tests failed in at least one of 2 runs" in counted.stdout


def test_property_tests_draw_anew_and_a_failure_prints_its_seed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_law.py").write_text(
        "from hypothesis import given, strategies\n"
        "@given(strategies.integers())\n"
        "def test_a_law(number):\n"
        "    assert number < 1000\n"
    )
    seeds = [
        match.group(1)
        for _ in range(2)
        if (match := re.search(r"--hypothesis-seed=(\d+)", call(tmp_path, "-m", "pytest").stdout))
    ]
    assert len(set(seeds)) == 2
