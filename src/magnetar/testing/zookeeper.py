"""A real ZooKeeper server for tests, in a process of its own."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from magnetar.testing.broker import HOST, find_ports
from magnetar.testing.server import Server

READY_S_MAX: Final = 60.0
_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_MEMBERS: Final = 3
_SHELL: Final = "org.apache.zookeeper.ZooKeeperMain"
_CONFIGURATION: Final = """\
clientPortAddress={host}
clientPort={port}
dataDir={data}
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
_ENSEMBLE: Final = """\
initLimit=20
syncLimit=10
"""


class ZookeeperMissing(AssertionError):
    """What a machine lacks to run a ZooKeeper server, and how to get it."""


class ZookeeperServer(Server):
    """Starts on entry and goes away on exit; port and data stay over `kill` and `restart`."""

    def __init__(self, *, heap_mib: int = 128) -> None:
        self._heap_mib = heap_mib
        self._home = Path(tempfile.mkdtemp(prefix="magnetar-zookeeper-"))
        (self.port,) = find_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._roots = itertools.count()
        self.log = self._home / "server.log"

    @property
    def hosts(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"zk://{self.hosts}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def new_url(self) -> str:
        """The address of a part of the tree that nobody has used."""
        return f"{self.url}/test-{os.getpid()}-{next(self._roots)}"

    def start(self) -> None:
        self._launch(_MAIN)
        self._await_ready()

    def configuration(self) -> str:
        return _CONFIGURATION.format(host=HOST, port=self.port, data=self._home / "data")

    def _launch(self, main: str) -> None:
        java, jars = find_java(), find_jars()
        configuration = self._home / "zoo.cfg"
        configuration.write_text(self.configuration())
        options = [
            f"-Xmx{self._heap_mib}m",
            "-Xms32m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        # A test's data need not outlive the machine, only the server's own death.
        options += ["-Dzookeeper.forceSync=no", "-Djava.net.preferIPv4Stack=true"]
        command = [java, *options, "-cp", jars, main, str(configuration)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        atexit.register(self._process.kill)

    def kill(self) -> None:
        """SIGKILL; everything acknowledged is in the server's log."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            atexit.unregister(process.kill)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def slow(self, *, stopped_s: float = 0.3, going_s: float = 0.03) -> Iterator[None]:
        """A server that answers, in fits and starts."""
        done = threading.Event()

        def drag() -> None:
            while not done.wait(going_s):
                self.pause()
                done.wait(stopped_s)
                self.resume()

        dragging = threading.Thread(target=drag)
        dragging.start()
        try:
            yield
        finally:
            done.set()
            dragging.join()

    def expire(self, session: tuple[int, bytes]) -> None:
        """End a session from outside, as the server does with one it has not heard of."""
        other = KazooClient(self.hosts, client_id=session)
        other.start()
        other.stop()
        other.close()

    def shell(self, *command: str) -> str:
        """What ZooKeeper's own shell answers to one command."""
        done = subprocess.run(
            [find_java(), "-cp", find_jars(), _SHELL, "-server", self.hosts, *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _await_ready(self) -> None:
        process = self._process
        assert process is not None, "the server was not started"
        deadline = time.monotonic() + READY_S_MAX
        while not self.mode:
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = self.log.read_text(errors="replace")[-2_000:]
                raise ZookeeperMissing(f"ZooKeeper did not start:\n{tail}")
            time.sleep(0.05)

    @property
    def mode(self) -> str:
        """`standalone`, `leader` or `follower`; nothing while it does not serve."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                told = connection.makefile("rb").read().decode(errors="replace")
        except OSError:
            return ""
        lines = [line for line in told.splitlines() if line.startswith("Mode: ")]
        return lines[0].removeprefix("Mode: ") if lines else ""


class _Member(ZookeeperServer):
    """One server of an ensemble; it serves when more than half of them are there."""

    def __init__(self, number: int, peers: str) -> None:
        super().__init__(heap_mib=64)
        self._number = number
        self._peers = peers

    def configuration(self) -> str:
        return super().configuration() + _ENSEMBLE + self._peers

    def start(self) -> None:
        data = self._home / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(self._number))
        self._launch(_MEMBER_MAIN)

    def await_ready(self) -> None:
        self._await_ready()


class ZookeeperEnsemble(Server):
    """Three servers that go on serving when one of them is killed."""

    def __init__(self) -> None:
        ports = find_ports(2 * _MEMBERS)
        numbers = range(1, _MEMBERS + 1)
        peers = "".join(
            f"server.{number}={HOST}:{ports[2 * number - 2]}:{ports[2 * number - 1]}\n"
            for number in numbers
        )
        self.members = [_Member(number, peers) for number in numbers]

    @property
    def url(self) -> str:
        return "zk://" + ",".join(member.hosts for member in self.members)

    @property
    def leader(self) -> ZookeeperServer:
        [leader] = [member for member in self.members if member.mode == "leader"]
        return leader

    def start(self) -> None:
        for member in self.members:
            member.start()
        for member in self.members:
            member.await_ready()

    def close(self) -> None:
        for member in self.members:
            member.close()


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise ZookeeperMissing(
            "There is no Java on this machine, and the tests start a real ZooKeeper: install"
            " Java 17 or later (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
        )
    return java


def find_jars() -> str:
    """The class path that `tools/zookeeper/fetch` made."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = os.environ.get("MAGNETAR_ZOOKEEPER_HOME") or f"{cache}/magnetar/zookeeper"
    jars = sorted(Path(home, "lib").glob("*.jar"))
    if not jars:
        raise ZookeeperMissing(
            f"The jars of ZooKeeper are not in {home}/lib: run tools/zookeeper/fetch,"
            " which needs Maven"
        )
    return os.pathsep.join(map(str, jars))


@functools.cache
def shared_zookeeper() -> ZookeeperServer:
    """One server for all tests of this process; do not stop it, and use `new_url`."""
    server = ZookeeperServer()
    server.start()
    atexit.register(server.close)
    return server
