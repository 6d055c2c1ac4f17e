"""The jars of ZooKeeper and BookKeeper, fetched from Maven Central once and checked.

`bookkeeper.jars` beside this module lists them: path in a repository, SHA-256, size. They are
written by tools/generate_jars.py. Neither Maven nor anything but a Java is needed to run them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from magnetar.errors import MagnetarError

CENTRAL: Final = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE: Final = "MAGNETAR_MAVEN"
HOME_VARIABLE: Final = "MAGNETAR_BOOKKEEPER_HOME"
JAVA_MAJOR_MIN: Final = 17
_LIST: Final = Path(__file__).with_name("bookkeeper.jars")
_AT_ONCE: Final = 6
_ANSWER_S_MAX: Final = 60.0

Progress = Callable[[int, int], None]
"""Called with the bytes fetched so far and the bytes of all."""


class ServerMissing(MagnetarError):
    """What a machine lacks to run a server in Java, and how to get it."""


@dataclass(frozen=True, slots=True)
class Jar:
    path: str
    digest: str
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def listed_jars() -> tuple[Jar, ...]:
    rows = (line.split() for line in _LIST.read_text().splitlines())
    return tuple(Jar(path, digest, int(size)) for path, digest, size in rows)


def cache_home() -> Path:
    """What can be fetched or made again is kept in a cache of the user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "magnetar")


def jar_home() -> Path:
    """Where the jars are kept: in the cache, unless the environment names a directory."""
    return Path(os.environ.get(HOME_VARIABLE) or cache_home() / "bookkeeper", "lib")


def fetch_jars(progress: Progress | None = None, jars: Sequence[Jar] = ()) -> str:
    """Fetch the jars that are not there yet; the class path of all of them."""
    home, jars = jar_home(), jars or listed_jars()
    missing = [jar for jar in jars if not _is_whole(home / jar.name, jar)]
    if missing:
        home.mkdir(parents=True, exist_ok=True)
        repository = find_repository()
        total, done = sum(jar.size for jar in missing), 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for size in pool.map(lambda jar: _fetch(repository, jar, home), missing):
                done += size
                if progress is not None:
                    progress(done, total)
    return os.pathsep.join(str(home / jar.name) for jar in jars)


def find_repository() -> str:
    """The repository that the environment names, else the mirror of Maven's settings."""
    named = os.environ.get(REPOSITORY_VARIABLE)
    settings = Path.home() / ".m2" / "settings.xml"
    mirrors = _mirrors(settings.read_text()) if not named and settings.is_file() else iter(())
    return (named or next(mirrors, CENTRAL)).rstrip("/")


def _mirrors(settings: str) -> Iterator[str]:
    text = re.sub(r"<!--.*?-->", "", settings, flags=re.DOTALL)
    for mirror in re.findall(r"<mirror>(.*?)</mirror>", text, re.DOTALL):
        fields = dict(re.findall(r"<(\w+)>\s*(.*?)\s*</\1>", mirror, re.DOTALL))
        of = {each.strip() for each in fields.get("mirrorOf", "").split(",")}
        if of & {"*", "central", "external:*"} and "!central" not in of:
            yield fields.get("url", CENTRAL)


def _is_whole(file: Path, jar: Jar) -> bool:
    """Files get their name when they are whole and checked; the size tells a damaged disk."""
    return file.is_file() and file.stat().st_size == jar.size


def _fetch(repository: str, jar: Jar, home: Path) -> int:
    url = f"{repository}/{jar.path}"
    try:
        # Proxies come from the environment, as for other programs.
        with urllib.request.urlopen(url, timeout=_ANSWER_S_MAX) as answer:  # nosec B310
            content: bytes = answer.read()
    except OSError as error:
        raise ServerMissing(
            f"{url} cannot be fetched ({error}): check the network and the proxy, or name another"
            f" Maven repository in {REPOSITORY_VARIABLE}"
        ) from error
    if hashlib.sha256(content).hexdigest() != jar.digest:
        raise ServerMissing(f"{url} has not the contents that this release was made with")
    with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
        file.write(content)
    os.replace(file.name, home / jar.name)
    return jar.size


def find_java() -> str:
    """A Java that is new enough; `JAVA_HOME` wins."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    advice = f"install Java {JAVA_MAJOR_MIN} or later (Debian: openjdk-17-jre-headless)"
    if java is None:
        raise ServerMissing(
            f"There is no Java here, and ZooKeeper and BookKeeper need one: {advice},"
            " or set JAVA_HOME"
        )
    return java


def check_java(java: str) -> None:
    """Refuse a Java that is too old by name, before servers fail with words of their own."""
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', shown)
    if found is None or int(found[1]) < JAVA_MAJOR_MIN:
        version = found[1] if found else "of an unknown version"
        raise ServerMissing(
            f"{java} is Java {version}: ZooKeeper and BookKeeper need {JAVA_MAJOR_MIN} or later;"
            " set JAVA_HOME to one"
        )


if __name__ == "__main__":
    try:
        check_java(find_java())
        fetch_jars()
    except ServerMissing as refusal:
        sys.exit(f"bookkeeper: {refusal.sentence}")
