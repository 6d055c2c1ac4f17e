"""A real broker for tests: as a process of its own, or inside the loop of the test."""

from __future__ import annotations

import atexit
import http.client
import importlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from magnetar.ledger.backends.file import Disk, FilePolicy
from magnetar.testing.server import Server

HOST: Final = "127.0.0.1"
READY_PATH: Final = "/admin/v2/brokers/ready"
READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
# Below the range from which systems take the ports of outgoing connections: a port stays free
# between crash and restart.
PORT_FIRST: Final = 20_000
PORT_LAST: Final = 31_999

Setting = str | int | float | bool


class BrokerFailed(AssertionError):
    """The broker did not start or stop; the message ends with the last lines of its log."""


class MagnetarBroker(Server):
    """A standalone broker in its own process, on free ports, with its data in one directory.

    Used as a context manager it starts on entry and stops on exit. Ports and data stay the same
    over `crash`, `stop` and `restart`, so that clients reconnect. A directory made here goes away
    with the context; one handed in stays.
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        set: Mapping[str, Setting] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="magnetar-"))
        self.data = data if data is not None else self._home / "data"
        self.log = self._home / "broker.log"
        self.port, self.web_port = find_ports(2)
        self._settings = dict(set or {})
        self._arguments = tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def service_url(self) -> str:
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it serves."""
        assert not self.running, "the broker runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        atexit.register(self._process.kill)
        try:
            self._await_ready()
        except BaseException:
            self.crash()
            raise

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "magnetar", "standalone", "--data", str(self.data)]
        command += ["--port", str(self.port), "--web-port", str(self.web_port)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={format_setting(value)}"]
        return [*command, *self._arguments]

    def crash(self) -> None:
        """SIGKILL: the process gets no chance to write anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def stop(self) -> int:
        """SIGTERM; wait for the clean end and return the exit code."""
        assert self._process is not None, "the broker was not started"
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.crash()
            raise BrokerFailed(self._explain(f"no end {STOP_S_MAX:g} s after SIGTERM")) from None
        self._forget()
        return code

    def restart(self, *, set: Mapping[str, Setting] | None = None) -> None:
        """Start again on the same data and ports; stop first if it runs; `set` adds settings."""
        if self.running:
            self.stop()
        self._settings.update(set or {})
        self.start()

    def read_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def close(self) -> None:
        try:
            if self.running:
                self.stop()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_S_MAX
        while not answers_ready(self.web_port):
            if self._process.poll() is not None:
                raise BrokerFailed(self._explain(f"ended with {self._process.returncode}"))
            if time.monotonic() > deadline:
                raise BrokerFailed(self._explain(f"not ready after {READY_S_MAX:g} s"))
            time.sleep(0.01)

    def _explain(self, problem: str) -> str:
        lines = self.read_log().splitlines()[-30:]
        return "\n".join([f"broker on {self.service_url}: {problem}", *lines])

    def _forget(self) -> None:
        assert self._process is not None
        atexit.unregister(self._process.kill)
        self._process = None


class RunningServer(Protocol):
    """What the in-process broker shows of itself."""

    @property
    def port(self) -> int: ...

    @property
    def web_port(self) -> int: ...


@asynccontextmanager
async def running_broker(
    *,
    data: Path | None = None,
    set: Mapping[str, Setting] | None = None,
    disk: Disk | None = None,
    files: FilePolicy | None = None,
) -> AsyncIterator[RunningServer]:
    """A standalone broker inside the running loop, on free ports; passing data unless told.

    Its ledgers lie on `disk`, the real one unless told, and are settled as `files` says.
    """
    # The assembly is the one room above this one, hence the import by name when it is needed.
    standalone = importlib.import_module("magnetar.app.standalone")
    with tempfile.TemporaryDirectory(prefix="magnetar-") as home:
        async with standalone.serving(
            data=data if data is not None else Path(home) / "data",
            port=0,
            web_port=0,
            overrides=[f"{key}={format_setting(value)}" for key, value in (set or {}).items()],
            disk=disk,
            files=files,
        ) as server:
            yield server


def format_setting(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_ports(count: int) -> list[int]:
    """Unused ports, all different."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            attempt = socket.socket()
            try:
                attempt.bind((HOST, random.randint(PORT_FIRST, PORT_LAST)))
            except OSError:
                attempt.close()
            else:
                held.append(attempt)
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def answers_ready(web_port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, web_port, timeout=5)
    try:
        connection.request("GET", READY_PATH)
        # With authentication on, 401 is an answer too.
        return connection.getresponse().status in (200, 401)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
