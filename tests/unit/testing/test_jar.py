"""Jars are fetched once, by their checksums, from where the user says."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from magnetar.testing.jar import (
    CENTRAL,
    HOME_VARIABLE,
    REPOSITORY_VARIABLE,
    Jar,
    ServerMissing,
    fetch_jars,
    find_repository,
    listed_jars,
)

CONTENT = b"not really a jar"
JAR = Jar("org/example/one/1/one-1.jar", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(REPOSITORY_VARIABLE, (tmp_path / "repository").as_uri())
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    file = tmp_path / "repository" / JAR.path
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    return file


def test_a_jar_is_fetched_once(repository: Path) -> None:
    seen: list[tuple[int, int]] = []
    first = fetch_jars(lambda done, total: seen.append((done, total)), [JAR])
    assert Path(first).read_bytes() == CONTENT
    repository.unlink()
    assert fetch_jars(jars=[JAR]) == first
    assert seen == [(JAR.size, JAR.size)]


def test_other_contents_are_refused_and_not_kept(repository: Path, tmp_path: Path) -> None:
    repository.write_bytes(CONTENT[::-1])
    with pytest.raises(ServerMissing, match="contents"):
        fetch_jars(jars=[JAR])
    assert list((tmp_path / "home/lib").iterdir()) == []


def test_a_repository_that_does_not_answer_is_named_with_advice(repository: Path) -> None:
    repository.unlink()
    with pytest.raises(ServerMissing, match=REPOSITORY_VARIABLE):
        fetch_jars(jars=[JAR])


def test_a_file_cut_short_is_fetched_again(repository: Path) -> None:
    file = Path(fetch_jars(jars=[JAR]))
    file.write_bytes(CONTENT[:3])
    assert Path(fetch_jars(jars=[JAR])).read_bytes() == CONTENT


SETTINGS = """<settings><mirrors>
<!-- <mirror><mirrorOf>*</mirrorOf><url>http://no</url></mirror> -->
<mirror><id>a</id><mirrorOf>others</mirrorOf><url>http://others</url></mirror>
<mirror><id>b</id><mirrorOf>{of}</mirrorOf><url>https://mirror.example/maven/</url></mirror>
</mirrors></settings>"""


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("central", "https://mirror.example/maven"),
        ("*", "https://mirror.example/maven"),
        ("*,!central", CENTRAL),
        ("external:http:*", CENTRAL),
    ],
)
def test_the_mirror_of_mavens_settings_is_asked(
    of: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(REPOSITORY_VARIABLE, raising=False)
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2/settings.xml").write_text(SETTINGS.format(of=of))
    assert find_repository() == expected


def test_every_listed_jar_has_a_path_a_checksum_and_a_size() -> None:
    jars = listed_jars()
    assert {"zookeeper", "bookkeeper-server"} <= {jar.path.split("/")[-3] for jar in jars}
    assert all(jar.path.endswith(".jar") and len(jar.digest) == 64 and jar.size for jar in jars)
    assert len({jar.name for jar in jars}) == len(jars), "names collide in one directory"
    assert os.pathsep not in "".join(jar.path for jar in jars)
