"""Servers in Java."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from magnetar.testing.jar import cache_home, fetch_jars, find_java
from magnetar.testing.process import STOP_S_MAX, ProcessServer, ServerFailed

_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-Djava.net.preferIPv4Stack=true",
)
_LOGGING: Final = """\
<Configuration status="ERROR"><Appenders><Console name="out" target="SYSTEM_OUT">
<PatternLayout pattern="%d{HH:mm:ss.SSS} %-5level %logger{1} - %msg %X%n"/></Console></Appenders>
<Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""
# Of a virtual machine that ended in order, by itself or after SIGTERM.
_ORDERLY: Final = (0, 143)


class ClassArchive:
    """The classes that a program loads, in a file that its next start maps instead of parsing jars:
    that takes half of the processor time. A run that ends in order writes it when there is none;
    the virtual machine ignores one that does not fit its version and its jars.
    """

    def __init__(self, program: str, class_path: str) -> None:
        place = f"{os.path.realpath(find_java())}\n{class_path}"
        mark = hashlib.sha256(place.encode()).hexdigest()[:16]
        self._file = cache_home() / "classes" / f"{program}-{mark}.jsa"
        self._draft: Path | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the run that got the options writes the archive."""
        return self._draft is not None

    def options(self) -> tuple[str, ...]:
        if self._file.exists():
            self._draft = None
            return (f"-XX:SharedArchiveFile={self._file}", "-Xshare:auto", "-Xlog:disable")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # The virtual machine writes under another name: it may be killed while it does.
        self._draft = Path(tempfile.mktemp(prefix=".draft-", dir=self._file.parent))  # nosec B306
        return (f"-XX:ArchiveClassesAtExit={self._draft}", "-Xlog:disable")

    def keep(self, exit_code: int | None) -> None:
        if self._draft is not None:
            if exit_code in _ORDERLY and self._draft.exists():
                os.replace(self._draft, self._file)
            self._draft.unlink(missing_ok=True)
            self._draft = None


class JavaServer(ProcessServer):
    """`memory` are options of the virtual machine, such as its heap."""

    def __init__(self, name: str, *, home: Path | None = None, memory: Sequence[str]) -> None:
        super().__init__(name, home)
        self._memory = tuple(memory)
        self._archive: ClassArchive | None = None

    @abstractmethod
    def arguments(self) -> list[str]:
        """The main class and what it is given, after writing the files that it reads."""

    def class_path(self) -> str:
        return fetch_jars()

    def command(self) -> list[str]:
        logging = self.home / "log4j2.xml"
        logging.write_text(_LOGGING)
        class_path = self.class_path()
        self._archive = ClassArchive(type(self).__name__.strip("_").lower(), class_path)
        options = (*self._memory, *_OPTIONS, f"-Dlog4j2.configurationFile={logging}")
        options += self._archive.options()
        return [find_java(), *options, "-cp", class_path, *self.arguments()]

    def await_end(self, limit_s: float = STOP_S_MAX) -> None:
        process = self._process
        super().await_end(limit_s)
        if process is not None and self._archive is not None:
            self._archive.keep(process.returncode)

    def close(self) -> None:
        if self.running and self._archive is not None and self._archive.is_recorded:
            self.resume()
            self.stop()
        super().close()


def run_java(
    program: str, class_path: str, words: Sequence[str], *, options: Sequence[str] = ()
) -> str:
    """What a program prints; its archive of classes is named `program`."""
    archive = ClassArchive(program, class_path)
    given = ("-Xmx128m", *_OPTIONS, *options, *archive.options())
    done = subprocess.run(
        [find_java(), *given, "-cp", class_path, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    archive.keep(done.returncode)
    if done.returncode:
        raise ServerFailed(f"{program} failed: {(done.stdout + done.stderr)[-3_000:]}")
    return done.stdout
