"""Real brokers of Apache Pulsar for tests and measurements, on a ZooKeeper and bookies of ours."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.broker import HOST, READY_PATH, Setting, find_ports, format_setting
from magnetar.testing.jar import ServerMissing
from magnetar.testing.java import JavaServer, run_java

CLUSTER: Final = "c1"
HOME_VARIABLE: Final = "PEER_HOME"
_MAIN: Final = "org.apache.pulsar.PulsarBrokerStarter"
_SETUP: Final = "org.apache.pulsar.PulsarClusterMetadataSetup"
_OPENED: Final = (
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.util.zip",
    "java.base/java.io",
    "java.management/sun.management",
    "java.base/jdk.internal.platform",
    "jdk.management/com.sun.management.internal",
)
_OPTIONS: Final = (
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
)
# Few threads: a broker shares the machine with bookies, clients and a test.
_SETTINGS: Final[Mapping[str, Setting]] = {
    "clusterName": CLUSTER,
    "bindAddress": HOST,
    "advertisedAddress": HOST,
    "numIOThreads": 2,
    "numHttpServerThreads": 6,
    "numOrderedExecutorThreads": 2,
    "topicOrderedExecutorThreadNum": 2,
    "managedLedgerNumSchedulerThreads": 2,
    "bookkeeperClientNumWorkerThreads": 2,
    "bookkeeperClientNumIoThreads": 2,
    "bookkeeperNumberOfChannelsPerBookie": 2,
    "managedLedgerCacheSizeMB": 32,
    "bookkeeperClientMinNumRacksPerWriteQuorum": 1,
    "brokerDeleteInactiveTopicsEnabled": False,
    "functionsWorkerEnabled": False,
}


class ApacheBroker(JavaServer):
    """One broker of Apache Pulsar 5.0.0-M1. `chroot` is its part of the ZooKeeper's tree."""

    def __init__(
        self,
        bookies: BookieCluster,
        *,
        name: str = "apache",
        chroot: str = "",
        set: Mapping[str, Setting] | None = None,
        heap_mib: int = 512,
    ) -> None:
        memory = (f"-Xmx{heap_mib}m", f"-XX:MaxDirectMemorySize={heap_mib}m", *_OPTIONS)
        super().__init__(name, memory=memory)
        self.port, self.web_port = find_ports(2)
        self._store = f"zk:{bookies.zookeeper.hosts}{chroot}"
        self._ledgers = f"zk+hierarchical://{bookies.zookeeper.hosts}/ledgers"
        self._settings = dict(set or {})

    @property
    def service_url(self) -> str:
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    def class_path(self) -> str:
        return find_pulsar_jars()

    def arguments(self) -> list[str]:
        settings: dict[str, Setting] = {
            "metadataStoreUrl": self._store,
            "configurationMetadataStoreUrl": self._store,
            "bookkeeperMetadataServiceUri": self._ledgers,
            "brokerServicePort": self.port,
            "webServicePort": self.web_port,
            **_SETTINGS,
            **self._settings,
        }
        file = self.home / "broker.conf"
        file.write_text(
            "".join(f"{key}={format_setting(value)}\n" for key, value in settings.items())
        )
        return [_MAIN, "-c", str(file)]

    @property
    def address(self) -> str:
        return self.service_url

    @property
    def is_serving(self) -> bool:
        try:
            with urllib.request.urlopen(self.admin_url + READY_PATH, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def format_apache(bookies: BookieCluster, chroot: str = "") -> None:
    """Write what Apache brokers expect in ZooKeeper before the first of them starts."""
    store = f"zk:{bookies.zookeeper.hosts}{chroot}"
    command = [_SETUP, "--cluster", CLUSTER]
    command += ["--metadata-store", store, "--configuration-metadata-store", store]
    command += ["--web-service-url", f"http://{HOST}:1"]
    command += ["--broker-service-url", f"pulsar://{HOST}:1"]
    ledgers = f"zk+hierarchical://{bookies.zookeeper.hosts}/ledgers"
    command += ["--existing-bk-metadata-service-uri", ledgers]
    run_java("apache-setup", find_pulsar_jars(), command, options=_OPTIONS)


def find_pulsar_jars() -> str:
    """The class path that `bench/peer/pulsar fetch` made."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = os.environ.get(HOME_VARIABLE) or f"{cache}/pulsar-peer"
    jars = sorted(Path(home, "lib").glob("*.jar"))
    if not jars:
        raise ServerMissing(
            f"The jars of Apache Pulsar are not in {home}/lib: run bench/peer/pulsar fetch,"
            " which needs Maven"
        )
    return os.pathsep.join(map(str, jars))
