"""Servers in Java."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from magnetar.testing.jar import fetch_jars, find_java
from magnetar.testing.process import ProcessServer

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


class JavaServer(ProcessServer):
    """`memory` are options of the virtual machine, such as its heap."""

    def __init__(self, name: str, *, home: Path | None = None, memory: Sequence[str]) -> None:
        super().__init__(name, home)
        self._memory = tuple(memory)

    @abstractmethod
    def arguments(self) -> list[str]:
        """The main class and what it is given, after writing the files that it reads."""

    def class_path(self) -> str:
        return fetch_jars()

    def command(self) -> list[str]:
        logging = self.home / "log4j2.xml"
        logging.write_text(_LOGGING)
        options = (*self._memory, *_OPTIONS, f"-Dlog4j2.configurationFile={logging}")
        return [find_java(), *options, "-cp", self.class_path(), *self.arguments()]
