"""Servers as processes of their own, which are killed, paused and started again."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import abstractmethod
from pathlib import Path
from typing import Final

from magnetar.errors import MagnetarError
from magnetar.testing.server import Server

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
_TAIL_LINES: Final = 20


class ServerFailed(MagnetarError):
    """A server did not start; the message ends with the last lines of its log."""


class ProcessServer(Server):
    """One process. Its address and data stay over `kill`, `stop` and `start`.

    A home that is handed in stays when the server is closed; one made here goes away.
    """

    def __init__(self, name: str, home: Path | None) -> None:
        self.name = name
        self._is_own_home = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix=f"magnetar-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The words of the process, after writing the files that it reads."""

    @property
    @abstractmethod
    def is_serving(self) -> bool:
        """Whether a real request was answered."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it serves, as its clients name it."""

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Of a process that ended by itself, negative for the signal that ended it."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self.launch()
        self.await_serving()

    def launch(self) -> None:
        """Start the process without waiting, so that several can start at once."""
        assert not self.running, f"{self.name} runs already"
        self._forget()
        self.home.mkdir(parents=True, exist_ok=True)
        command = self.command()
        with self.log.open("ab") as log:
            # A group of its own: Ctrl-C at a terminal is for the process that started the servers.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        atexit.register(self._process.kill)

    def await_serving(self, limit_s: float = READY_S_MAX) -> None:
        deadline = time.monotonic() + limit_s
        while not self.is_serving:
            if not self.running or time.monotonic() > deadline:
                raise ServerFailed(self.explain("did not start"))
            time.sleep(0.05)

    def explain(self, problem: str) -> str:
        lines = self.read_log().splitlines()[-_TAIL_LINES:]
        return "\n".join([f"{self.name} {problem}; see {self.log}", *lines])

    def read_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """SIGKILL; what it has acknowledged is in its files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it does not end."""
        self.terminate()
        self.await_end()

    def terminate(self) -> None:
        """SIGTERM without waiting, so that several can end at once."""
        if self._process is not None:
            self._process.terminate()

    def await_end(self, limit_s: float = STOP_S_MAX) -> None:
        if self._process is not None:
            try:
                self._process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._forget()

    def restart(self) -> None:
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers. Returns when every thread has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        if self._is_own_home:
            shutil.rmtree(self.home, ignore_errors=True)

    def _forget(self) -> None:
        if self._process is not None:
            atexit.unregister(self._process.kill)
            self._process = None
