"""The simulated disk keeps what was synced, and of the rest what a real one might."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from magnetar.testing.simulation.disk import PowerLost, SimulatedDisk

FOLDER = Path("/folder")
FILE = FOLDER / "file"


def read(disk: SimulatedDisk, path: Path = FILE) -> bytes:
    return disk.read(path, [(0, 1000)])[0]


@pytest.mark.parametrize("seed", range(50))
def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    file = disk.create(FILE)
    disk.sync_directory(FOLDER)
    file.write([b"durable"])
    file.sync()
    file.write([b" or not"])
    disk.cut_power()
    found = read(disk)
    assert found.startswith(b"durable")
    assert len(found) <= len(b"durable or not")


def test_a_name_that_was_not_synced_may_be_lost_and_one_that_was_is_not() -> None:
    lost = 0
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        disk.create(FOLDER / "known")
        disk.sync_directory(FOLDER)
        disk.create(FOLDER / "new").write([b"x"])
        disk.cut_power()
        assert "known" in disk.sizes(FOLDER)
        lost += "new" not in disk.sizes(FOLDER)
    assert 0 < lost < 50


def test_a_rename_that_was_not_synced_is_undone_whole() -> None:
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        file = disk.create(FOLDER / "temporary")
        file.write([b"content"])
        file.sync()
        disk.sync_directory(FOLDER)
        disk.rename(FOLDER / "temporary", FILE)
        disk.cut_power()
        (name,) = disk.sizes(FOLDER)
        assert read(disk, FOLDER / name) == b"content"


def test_a_failing_disk_fails_writes_and_syncs_and_still_reads() -> None:
    disk = SimulatedDisk(Random(0))
    file = disk.create(FILE)
    file.write([b"before"])
    disk.error = errno.ENOSPC
    for operation in (lambda: file.write([b"more"]), file.sync):
        with pytest.raises(OSError, match="No space left"):
            operation()
    assert read(disk).startswith(b"before")
    disk.error = None
    file.sync()


def test_power_is_lost_between_two_operations() -> None:
    disk = SimulatedDisk(Random(0))
    file = disk.create(FILE)
    disk.sync_directory(FOLDER)
    disk.stop_after(1)
    file.write([b"written"])
    with pytest.raises(PowerLost):
        file.sync()
    disk.cut_power()
    disk.create(FILE).sync()
