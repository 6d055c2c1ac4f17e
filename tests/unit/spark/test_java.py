from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.client.error import ConfigurationError
from magnetar.spark.java import check_java


def make_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    check_java({"JAVA_HOME": str(make_java(tmp_path, version)), "PATH": "/bin:/usr/bin"})


@pytest.mark.parametrize(("version", "told"), [("1.8.0_392", "8"), ("11.0.2", "11")])
def test_an_old_java_is_named_with_what_to_install(tmp_path: Path, version: str, told: str) -> None:
    home = make_java(tmp_path, version)
    with pytest.raises(ConfigurationError, match=f"is version {told}; install one, such as"):
        check_java({"JAVA_HOME": str(home)})


def test_no_java_is_a_sentence_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no java was found; install one, such as"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="has no bin/java; install one"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})
