"""Folders of the disk: what the driver writes there needs no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from magnetar import ConfigurationError
from magnetar.spark.job.folder import LocalFolder, find_folder

SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
"""It has its settings, and nothing that is private."""


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE:"])
def test_a_folder_of_the_disk_needs_nothing_private_of_spark(tmp_path: Path, scheme: str) -> None:
    given = f"{scheme}{tmp_path}/a b%20/"
    place = find_folder(SESSION, given, environment={})
    assert place.uri == f"file://{tmp_path}/a b%20"
    assert place.child("x") == f"{place.uri}/x"
    assert place.read("x") is None and not place.has("x") and place.names(".") == []
    for text in ("a longer text", "ü"):
        assert place.write("x", text) == f"{given}x"
        assert place.read("x") == text
    assert place.write("folder/y", "z") == f"{given}folder/y"
    assert place.names(".") == ["folder", "x"]
    for name in ("folder", "x", "x"):
        place.remove(name)
    assert place.names(".") == []


def test_a_relative_path_is_meant_from_where_the_job_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_folder(SESSION, "a/../b", environment={}).uri == f"file://{tmp_path}/b"


def test_a_folder_of_the_disk_has_one_writer_at_a_time(tmp_path: Path) -> None:
    first, second = (LocalFolder(str(tmp_path / "new"), "new") for _ in range(2))
    with (
        first.locked(),
        pytest.raises(ConfigurationError, match="Another job writes to"),
        second.locked(),
    ):
        pytest.fail("both write")
    with second.locked():
        pass
