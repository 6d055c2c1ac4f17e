"""Real bookies of Apache BookKeeper for tests, each in a process of its own, and a ZooKeeper."""

from __future__ import annotations

import atexit
import functools
import itertools
import shutil
import socket
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from magnetar.model.bookie import LEDGERS, cluster_records
from magnetar.testing.broker import HOST, Setting, find_ports, format_setting
from magnetar.testing.java import JavaServer, run_java
from magnetar.testing.server import Server
from magnetar.testing.zookeeper import ZookeeperEnsemble, ZookeeperServer

_MAIN: Final = "org.apache.bookkeeper.server.Main"
_SHELL: Final = "org.apache.bookkeeper.bookie.BookieShell"
# Small: these bookies share a machine with each other and with a test.
_SETTINGS: Final[Mapping[str, Setting]] = {
    "advertisedAddress": HOST,
    "listeningInterface": "lo",
    "allowLoopback": True,
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
    "skipListSizeLimit": 4_194_304,
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.98,
    "minUsableSizeForIndexFileCreation": 0,
    "minUsableSizeForEntryLogCreation": 0,
    "minUsableSizeForHighPriorityWrites": 0,
    "journalMaxSizeMB": 64,
    "journalPreAllocSizeMB": 4,
    "logSizeLimit": 67_108_864,
    "numReadWorkerThreads": 1,
    "numHighPriorityWorkerThreads": 1,
    "serverNumIOThreads": 1,
    "gcWaitTime": 10_000,
    "httpServerEnabled": False,
    "nettyMaxFrameSizeBytes": 5_253_120,
    # How long a killed bookie stays listed, and how long its successor waits for that entry.
    "zkTimeout": 4_000,
}
# Read entry 0 of a ledger that does not exist, in the second version of the protocol.
_QUESTION: Final = struct.pack(">iiqq", 20, 0x02020000, (1 << 62) - 1, 0)
_ANSWER_BYTES: Final = 28
# Where bookies are listed, those that take no more entries in the second.
_PLACES: Final = (f"{LEDGERS}/available/", f"{LEDGERS}/available/readonly/")


class Bookie(JavaServer):
    """One bookie. `is_synced` makes it acknowledge what is on disk, not what is in memory."""

    def __init__(
        self,
        zookeeper: ZookeeperServer | ZookeeperEnsemble,
        *,
        name: str = "bookie",
        home: Path | None = None,
        port: int | None = None,
        is_synced: bool = False,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        super().__init__(name, home=home, memory=("-Xmx128m", "-XX:MaxDirectMemorySize=128m"))
        self.port = port or find_ports(1)[0]
        self._zookeeper = zookeeper
        self.settings: dict[str, Setting] = {
            **_SETTINGS,
            "journalSyncData": is_synced,
            **(settings or {}),
        }

    @property
    def address(self) -> str:
        """As metadata names it."""
        return f"{HOST}:{self.port}"

    @property
    def journals(self) -> Path:
        return self.home / "journal"

    @property
    def ledgers(self) -> Path:
        return self.home / "ledgers"

    def arguments(self) -> list[str]:
        return [_MAIN, "-c", str(self._configure())]

    def _configure(self) -> Path:
        hosts = self._zookeeper.hosts.replace(",", ";")
        settings: dict[str, Setting] = {
            "bookiePort": self.port,
            "metadataServiceUri": f"zk+hierarchical://{hosts}{LEDGERS}",
            "journalDirectories": str(self.journals),
            "ledgerDirectories": str(self.ledgers),
            **self.settings,
        }
        file = self.home / "bookie.conf"
        file.write_text(
            "".join(f"{key}={format_setting(value)}\n" for key, value in settings.items())
        )
        return file

    def launch(self) -> None:
        """A predecessor that was killed stays listed until its session ends, and one that starts
        meanwhile gives up after that time: it may have begun before the session's time did, which
        begins anew with a ZooKeeper that was killed too.
        """
        if self.is_registered:
            with zookeeper_client(self._zookeeper.hosts) as client:
                for place in _PLACES:
                    with suppress(NoNodeError):
                        client.delete(place + self.address)
        super().launch()

    @property
    def is_serving(self) -> bool:
        return self.is_registered and self._answers()

    @property
    def is_registered(self) -> bool:
        keys = self._zookeeper.ephemeral_keys()
        return any(place + self.address in keys for place in _PLACES)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(_QUESTION)
                return len(connection.makefile("rb").read(_ANSWER_BYTES)) == _ANSWER_BYTES
        except OSError:
            return False

    def await_unlisted(self, limit_s: float = 30.0) -> None:
        """After a kill: until the bookie's session has ended and clients no longer choose it."""
        deadline = time.monotonic() + limit_s
        while self.is_registered:
            assert time.monotonic() < deadline, f"{self.address} is listed after {limit_s:g} s"
            time.sleep(0.1)

    def wipe(self) -> None:
        """Lose all data, as a disk that was replaced; the bookie must not run."""
        assert not self.running, f"{self.name} runs"
        shutil.rmtree(self.journals, ignore_errors=True)
        shutil.rmtree(self.ledgers, ignore_errors=True)

    def shell(self, *command: str) -> str:
        """What BookKeeper's own shell prints for one command."""
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}"
        words = (_SHELL, "-conf", str(self._configure()), *command)
        return run_java("shell", self.class_path(), words, options=(logging,))


class BookieCluster(Server):
    """A ZooKeeper and bookies on free ports, with the metadata of a new BookKeeper cluster."""

    def __init__(
        self,
        bookies: int = 3,
        *,
        is_synced: bool = False,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="magnetar-bookies-"))
        self.zookeeper = ZookeeperServer(home=self.home / "zookeeper")
        self._is_synced = is_synced
        self._settings = dict(settings or {})
        self._numbers = itertools.count(1)
        self.bookies: list[Bookie] = [self._new_bookie() for _ in range(bookies)]

    @property
    def url(self) -> str:
        """What a broker is given as `--metadata`."""
        return self.zookeeper.url

    def start(self) -> None:
        self.zookeeper.start()
        format_cluster(self.zookeeper.hosts)
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.await_serving()

    def add_bookie(self, settings: Mapping[str, Setting] | None = None) -> Bookie:
        """One more, on an address of its own."""
        bookie = self._new_bookie(settings)
        bookie.start()
        self.bookies.append(bookie)
        return bookie

    def bookie_at(self, address: str) -> Bookie:
        [bookie] = [bookie for bookie in self.bookies if bookie.address == address]
        return bookie

    def mend(self) -> None:
        """Everything serves again: what a test has paused goes on, what it has killed starts."""
        servers: list[JavaServer] = [self.zookeeper, *self.bookies]
        for server in servers:
            if server.running:
                server.resume()
        if not self.zookeeper.running:
            self.zookeeper.start()  # it says which bookies it still lists
        for bookie in self.bookies:
            if not bookie.running:
                bookie.launch()
        for server in servers:
            server.await_serving()

    def close(self) -> None:
        for server in (*self.bookies, self.zookeeper):
            server.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _new_bookie(self, settings: Mapping[str, Setting] | None = None) -> Bookie:
        """In a directory of its own: one that an earlier bookie left has that one's cookie."""
        name = f"bookie-{next(self._numbers)}"
        return Bookie(
            self.zookeeper,
            name=name,
            home=self.home / name,
            is_synced=self._is_synced,
            settings={**self._settings, **(settings or {})},
        )


def format_cluster(hosts: str, root: str = LEDGERS) -> None:
    """Write what a new BookKeeper cluster has in ZooKeeper; one that is there stays as it is."""
    with zookeeper_client(hosts) as client:
        for path, value in cluster_records(str(uuid.uuid4()).encode()).items():
            with suppress(NodeExistsError):
                client.create(f"{root}/{path}", value, makepath=True)


@contextmanager
def zookeeper_client(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@functools.cache
def shared_bookies() -> BookieCluster:
    """Three bookies for all tests of this process; a test that harms them calls `mend`.

    Tests that use them belong to one group of xdist, so that a run starts them once:
    `pytestmark = pytest.mark.xdist_group("bookkeeper")`.
    """
    cluster = BookieCluster()
    atexit.register(cluster.close)
    cluster.start()
    return cluster
