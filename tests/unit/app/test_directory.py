from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.app.directory import FORMAT_VERSION, holding, inspecting, read_format
from magnetar.errors import DataDirectoryRefused
from magnetar.runtime.clock import SystemClock

CLOCK = SystemClock()
HOLDER = """
import sys, time
from pathlib import Path
from magnetar.app.directory import holding
from magnetar.runtime.clock import SystemClock
with holding(Path(sys.argv[1]), SystemClock()):
    print("in", flush=True)
    time.sleep(3600)
"""


def test_a_new_directory_is_private_stamped_and_usable_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    with holding(path, CLOCK) as directory:
        assert directory.path == path
        assert directory.metadata_file.parent == directory.ledger_folder.parent == path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / "LOCK").stat().st_mode) == 0o600
        assert (path / "LOCK").read_text().startswith(f"pid {os.getpid()} since ")
    assert (path / "FORMAT").read_text() == "magnetar 2\n"
    assert read_format(path) == FORMAT_VERSION
    assert (path / "LOCK").read_text() == ""
    (path / "anything").touch()
    with holding(path, CLOCK):
        pass


def test_an_open_directory_is_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with holding(tmp_path, CLOCK):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_second_holder_is_told_who_is_inside(tmp_path: Path) -> None:
    with holding(tmp_path, CLOCK):
        told = f"process {os.getpid()}, started 20"
        with pytest.raises(DataDirectoryRefused) as refusal, holding(tmp_path, CLOCK):
            pass
        assert f"{tmp_path} is in use by {told}" in str(refusal.value)
        with inspecting(tmp_path) as holder:
            assert holder is not None
            assert holder.startswith(told)


def test_a_directory_of_the_first_format_is_brought_to_the_present_one(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("magnetar 1\n")
    with holding(tmp_path, CLOCK):
        assert read_format(tmp_path) == FORMAT_VERSION


def test_a_lock_goes_with_the_process_that_was_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        with (
            pytest.raises(DataDirectoryRefused, match=f"process {process.pid}"),
            holding(tmp_path, CLOCK),
        ):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with holding(tmp_path, CLOCK):
        pass


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), holding(tmp_path, CLOCK):
        raise ZeroDivisionError
    with holding(tmp_path, CLOCK):
        pass


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        ("magnetar 3\n", "is in format 3; this version reads and writes format 2"),
        ("pulsar\n", "does not name a version"),
        ("", "does not name a version"),
    ],
)
def test_an_unknown_format_is_refused_and_left_alone(
    tmp_path: Path, stamp: str, reason: str
) -> None:
    (tmp_path / "FORMAT").write_text(stamp)
    with pytest.raises(DataDirectoryRefused, match=reason), holding(tmp_path, CLOCK):
        pass
    assert (tmp_path / "FORMAT").read_text() == stamp


def test_somebody_elses_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").touch()
    with (
        pytest.raises(DataDirectoryRefused, match=r"not empty: it holds thesis\.doc"),
        holding(tmp_path, CLOCK),
    ):
        pass
    assert not (tmp_path / "FORMAT").exists()


def test_a_stamp_interrupted_by_a_crash_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "FORMAT.new").write_text("magn")
    with holding(tmp_path, CLOCK):
        assert read_format(tmp_path) == FORMAT_VERSION


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DataDirectoryRefused, match="cannot be used"), holding(file, CLOCK):
        pass
    with pytest.raises(DataDirectoryRefused, match="is not a directory"), inspecting(file):
        pass


def test_inspecting_changes_nothing_and_keeps_holders_out(tmp_path: Path) -> None:
    with inspecting(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    with holding(tmp_path, CLOCK):
        pass
    with (
        inspecting(tmp_path),
        inspecting(tmp_path),
        pytest.raises(DataDirectoryRefused, match="in use by another process"),
        holding(tmp_path, CLOCK),
    ):
        pass
