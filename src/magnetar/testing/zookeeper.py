"""A real ZooKeeper server for tests, in a process of its own."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from magnetar.testing.broker import HOST, find_ports
from magnetar.testing.java import JavaServer, run_java
from magnetar.testing.server import Server

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
4lw.commands.whitelist=srvr,dump
"""
_ENSEMBLE: Final = """\
initLimit=20
syncLimit=10
"""


class ZookeeperServer(JavaServer):
    """Starts on entry and goes away on exit; port and data stay over `kill` and `restart`."""

    main = _MAIN

    def __init__(
        self,
        *,
        heap_mib: int = 128,
        home: Path | None = None,
        port: int | None = None,
        is_durable: bool = False,
    ) -> None:
        super().__init__("zookeeper", home=home, memory=(f"-Xmx{heap_mib}m", "-Xms32m"))
        self.port = port or find_ports(1)[0]
        self._roots = itertools.count()
        self._is_durable = is_durable

    @property
    def hosts(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"zk://{self.hosts}"

    def new_url(self) -> str:
        """The address of an unused part of the tree."""
        return f"{self.url}/test-{os.getpid()}-{next(self._roots)}"

    def configuration(self) -> str:
        return _CONFIGURATION.format(host=HOST, port=self.port, data=self.home / "data")

    def arguments(self) -> list[str]:
        configuration = self.home / "zoo.cfg"
        configuration.write_text(self.configuration())
        # A test's data need not outlive the machine, only the server's own death.
        sync = [] if self._is_durable else ["-Dzookeeper.forceSync=no"]
        return [*sync, self.main, str(configuration)]

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
        words = (_SHELL, "-server", self.hosts, *command)
        return run_java("zookeeper-shell", self.class_path(), words)

    @property
    def address(self) -> str:
        return self.url

    @property
    def is_serving(self) -> bool:
        return bool(self.mode)

    @property
    def mode(self) -> str:
        """`standalone`, `leader` or `follower`; nothing while it does not serve."""
        lines = [line for line in self.ask("srvr").splitlines() if line.startswith("Mode: ")]
        return lines[0].removeprefix("Mode: ") if lines else ""

    def ephemeral_keys(self) -> set[str]:
        """The keys that go with the sessions of those who wrote them."""
        return {line.strip() for line in self.ask("dump").splitlines() if line.startswith("\t/")}

    def ask(self, word: str) -> str:
        """What the server answers to one of its words of four letters."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                return connection.makefile("rb").read().decode(errors="replace")
        except OSError:
            return ""


class _Member(ZookeeperServer):
    """One server of an ensemble; it serves when more than half of them are there."""

    main = _MEMBER_MAIN

    def __init__(self, number: int, peers: str) -> None:
        super().__init__(heap_mib=64)
        self._number = number
        self._peers = peers

    def configuration(self) -> str:
        return super().configuration() + _ENSEMBLE + self._peers

    def arguments(self) -> list[str]:
        data = self.home / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(self._number))
        return super().arguments()


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
    def hosts(self) -> str:
        return ",".join(member.hosts for member in self.members)

    @property
    def url(self) -> str:
        return f"zk://{self.hosts}"

    def ephemeral_keys(self) -> set[str]:
        """As the leader knows them."""
        return self.leader.ephemeral_keys()

    @property
    def leader(self) -> ZookeeperServer:
        [leader] = [member for member in self.members if member.mode == "leader"]
        return leader

    def start(self) -> None:
        for member in self.members:
            member.launch()
        for member in self.members:
            member.await_serving()

    def close(self) -> None:
        for member in self.members:
            member.close()


@functools.cache
def shared_zookeeper() -> ZookeeperServer:
    """One server for all tests of this process; do not stop it, and use `new_url`."""
    server = ZookeeperServer()
    server.start()
    atexit.register(server.close)
    return server
