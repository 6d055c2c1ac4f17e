"""Servers in Java as processes of their own, which tests kill, pause and start again."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from magnetar.errors import MagnetarError
from magnetar.testing.jar import fetch_jars, find_java
from magnetar.testing.server import Server

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
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


class ServerFailed(MagnetarError):
    """A server did not start; the message ends with the last lines of its log."""


class JavaServer(Server):
    """One process. Its address and data stay over `kill`, `stop` and `start`.

    A home that is handed in stays when the server is closed; one made here goes away.
    """

    def __init__(self, name: str, *, home: Path | None = None, memory: Sequence[str]) -> None:
        self.name = name
        self._is_own_home = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix=f"magnetar-{name}-"))
        self.log = self.home / "server.log"
        self._memory = tuple(memory)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def arguments(self) -> list[str]:
        """The main class and what it is given, after writing the files that it reads."""

    @property
    @abstractmethod
    def is_serving(self) -> bool:
        """Whether a real request was answered."""

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self.launch()
        self.await_serving()

    def launch(self) -> None:
        """Start the process without waiting, so that several can start at once."""
        assert not self.running, f"{self.name} runs already"
        self.home.mkdir(parents=True, exist_ok=True)
        logging = self.home / "log4j2.xml"
        logging.write_text(_LOGGING)
        options = (*self._memory, *_OPTIONS, f"-Dlog4j2.configurationFile={logging}")
        command = [find_java(), *options, "-cp", self.class_path(), *self.arguments()]
        with self.log.open("ab") as log:
            # A group of its own: Ctrl-C at a terminal is for the one who started the servers.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        atexit.register(self._process.kill)

    def class_path(self) -> str:
        return fetch_jars()

    def await_serving(self, limit_s: float = READY_S_MAX) -> None:
        deadline = time.monotonic() + limit_s
        while not self.is_serving:
            if not self.running or time.monotonic() > deadline:
                raise ServerFailed(self.explain("did not start"))
            time.sleep(0.05)

    def explain(self, problem: str) -> str:
        lines = self.read_log().splitlines()[-20:]
        return "\n".join([f"{self.name} {problem}; see {self.log}", *lines])

    def read_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """SIGKILL; what it has acknowledged is in its files."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it does not end."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._end()

    def restart(self) -> None:
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        if self._is_own_home:
            shutil.rmtree(self.home, ignore_errors=True)

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait()
        atexit.unregister(self._process.kill)
        self._process = None
