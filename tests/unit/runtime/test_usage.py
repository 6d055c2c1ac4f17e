"""How many cores a process may keep busy, by what its control groups are given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from magnetar.runtime.usage import count_cores, parse_quota

CORES = len(os.sched_getaffinity(0))
A_CORE_AND_A_HALF = "150000 100000\n"


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("200000 100000\n", 2.0),
        (A_CORE_AND_A_HALF, 1.5),
        ("10000 100000", 0.1),
        ("max 100000\n", None),
        ("-1 100000", None),
        ("100000 0", None),
        ("100000", None),
        ("", None),
    ],
)
def test_the_limit_of_a_control_group_is_its_time_in_each_period(
    text: str, cores: float | None
) -> None:
    assert parse_quota(text) == cores


def group_of(path: Path, name: str) -> Path:
    """The file that says in which group a process is."""
    file = path / "cgroup"
    file.write_text(f"1:cpu:/elsewhere\n0::/{name}\n")
    return file


def test_without_control_groups_all_cores_count(tmp_path: Path) -> None:
    assert count_cores(tmp_path / "none", tmp_path / "neither") == CORES


@pytest.mark.parametrize("limited", [".", "system.slice", "system.slice/broker.service"])
def test_the_least_that_a_group_around_the_process_is_given_counts(
    tmp_path: Path, limited: str
) -> None:
    groups = tmp_path / "groups"
    (groups / "system.slice/broker.service").mkdir(parents=True)
    (groups / "system.slice/cpu.max").write_text("6400000 100000")
    (groups / limited / "cpu.max").write_text(A_CORE_AND_A_HALF)
    assert count_cores(groups, group_of(tmp_path, "system.slice/broker.service")) == 1


def test_groups_of_the_first_version_count_too_and_one_core_is_the_least(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    quota = tmp_path / "cpu/cpu.cfs_quota_us"
    quota.write_text("50000\n")
    assert count_cores(tmp_path, tmp_path / "none") == 1
    quota.write_text("-1\n")
    assert count_cores(tmp_path, tmp_path / "none") == CORES
