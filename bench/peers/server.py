"""The servers that are compared, each on free ports with data of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from magnetar.testing.broker import HOST, MagnetarBroker, find_ports

KIT = Path(__file__).parent.parent / "peer"


class Server(Protocol):
    """`start` after `crash` or `stop` goes on with the same data and address."""

    name: str
    data: Path

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> float:
        """The seconds until it served."""

    def stop(self) -> None: ...
    def crash(self) -> None: ...
    def close(self) -> None: ...


class Magnetar:
    """It syncs before it acknowledges; its defaults are not touched."""

    name = "magnetar"

    def __init__(self) -> None:
        self._broker = MagnetarBroker()
        self.data = self._broker.data

    @property
    def address(self) -> str:
        return f"{HOST}:{self._broker.port}"

    @property
    def pid(self) -> int:
        return self._broker.pid

    def start(self) -> float:
        began = time.perf_counter()
        self._broker.start()
        return time.perf_counter() - began

    def stop(self) -> None:
        self._broker.stop()

    def crash(self) -> None:
        self._broker.crash()

    def close(self) -> None:
        self._broker.close()


class Kit:
    """A server that a script of `bench/peer` starts."""

    def __init__(self, name: str, script: str, options: Sequence[str], ports: int) -> None:
        self.name = name
        self._script = str(KIT / script)
        self._options = options
        self._ports = find_ports(ports)
        self.data = Path(tempfile.mkdtemp(prefix=f"{name}-"))

    @property
    def address(self) -> str:
        return f"{HOST}:{self._ports[0]}"

    @property
    def pid(self) -> int:
        return int((self.data / "peer.pid").read_text())

    def start(self) -> float:
        flags = ("--port", "--controller")
        ports = [word for pair in zip(flags, map(str, self._ports), strict=False) for word in pair]
        command = [self._script, "start", "--data", str(self.data), *ports, *self._options]
        subprocess.run(command, check=True, stdout=sys.stderr)
        return float((self.data / "peer.ready").read_text())

    def stop(self) -> None:
        command = [self._script, "stop", "--data", str(self.data)]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            self.crash()

    def crash(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        while _is_alive(self.pid):
            time.sleep(0.01)
        (self.data / "peer.pid").unlink()

    def close(self) -> None:
        """Its data goes with it: there is nothing to end cleanly, which can take a minute."""
        if (self.data / "peer.pid").exists():
            self.crash()
        shutil.rmtree(self.data, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    """A process that has ended but was not waited for holds nothing any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def make_kafka() -> Server:
    """Whether it syncs is a setting of each topic: one server serves both."""
    return Kit("kafka", "kafka", (), ports=2)


def make_nats(*, sync: bool) -> Server:
    name = "nats-sync" if sync else "nats"
    return Kit(name, "nats", ("--sync",) if sync else (), ports=1)


def find_clients() -> str:
    """The interpreter that has the peers' clients."""
    done = subprocess.run([str(KIT / "clients")], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()
