"""Brokers on shared bookies: who owns what, and servers that are put right after each test."""

from __future__ import annotations

import http.client
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from magnetar.client.admin import AdminClient
from magnetar.errors import MagnetarError
from magnetar.ledger.backends.bookkeeper.catalogue import format_path
from magnetar.model.bookie import LEDGERS
from magnetar.testing.bookkeeper import BookieCluster, zookeeper_client
from magnetar.testing.broker import HOST, Setting
from magnetar.testing.member import ClusterBroker
from magnetar.testing.server import Server
from magnetar.wire.bookkeeper import LedgerMetadata, decode_ledger
from tests.cluster.workload import await_true

SESSION_MS = 3_000
STEADY_SESSION_MS = 5_000
SETTINGS: Mapping[str, Setting] = {
    "metadataStoreSessionTimeoutMillis": SESSION_MS,
    "bookkeeperClientTimeoutInSeconds": 2,
    # Ledgers roll over while whatever a test does happens.
    "managedLedgerMaxEntriesPerLedger": 50,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerDefaultEnsembleSize": 2,
    "managedLedgerDefaultWriteQuorum": 2,
    "managedLedgerDefaultAckQuorum": 2,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "brokerDeleteInactiveTopicsEnabled": False,
    "scalableTopicAutoScaleEnabled": False,
    "transactionCoordinatorEnabled": True,
}
NAMESPACE = "public/default"
_TOPICS = itertools.count()


class Members:
    """The brokers of one cluster, and what is asked of those that run."""

    def __init__(self, brokers: list[ClusterBroker]) -> None:
        self.brokers = brokers

    @property
    def service_url(self) -> str:
        return "pulsar://" + ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def running(self) -> list[ClusterBroker]:
        return [broker for broker in self.brokers if broker.running]

    def new_topic(self, name: str) -> str:
        return f"persistent://public/default/{name}-{next(_TOPICS)}"

    def new_scalable(self, name: str, segments: int = 2) -> str:
        topic = f"topic://public/default/{name}-{next(_TOPICS)}"
        with self.admin() as admin:
            admin.scalable_topics.create(topic, segments=segments)
        return topic

    def admin(self, broker: ClusterBroker | None = None) -> AdminClient:
        return AdminClient((broker or self.running[0]).admin_url, timeout=90.0)


class BrokerCluster(Members, Server):
    """Brokers with a part of the ZooKeeper's tree for themselves, on bookies that others share."""

    def __init__(
        self, bookies: BookieCluster, count: int = 3, settings: Mapping[str, Setting] | None = None
    ) -> None:
        self.bookies = bookies
        self.root = f"/brokers-{os.getpid()}-{next(_TOPICS)}"
        ledgers = f"zk+hierarchical://{bookies.zookeeper.hosts}/ledgers"
        chosen = {**SETTINGS, "bookkeeperMetadataServiceUri": ledgers, **(settings or {})}
        super().__init__(
            [
                ClusterBroker(f"{bookies.url}{self.root}", name=f"broker-{number}", set=chosen)
                for number in range(1, count + 1)
            ]
        )

    def start(self) -> None:
        # The first one writes what all of them share.
        first, *others = self.brokers
        first.start()
        for broker in others:
            broker.launch()
        for broker in others:
            broker.await_serving()

    def mend(self) -> None:
        for broker in self.brokers:
            if broker.running:
                broker.resume()
            else:
                broker.launch()
        for broker in self.brokers:
            broker.await_serving()

    def spread(self) -> None:
        """Give each broker bundles: those of brokers that were killed are at the others."""
        with self.admin() as admin:
            bounds = admin.namespaces.bundles(NAMESPACE)["boundaries"]
            bundles = [f"{first}_{last}" for first, last in itertools.pairwise(bounds)]
            for bundle, broker in zip(bundles, itertools.cycle(self.brokers), strict=False):
                name = f"{HOST}:{broker.web_port}"
                admin.namespaces.unload_bundle(NAMESPACE, bundle, destination=name)

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()

    def owner(self, topic: str, asked: ClusterBroker | None = None) -> ClusterBroker:
        """Who serves a topic, as one broker says, or any that is there."""
        found: list[ClusterBroker] = []

        def look() -> bool:
            for each in [asked] if asked else self.running:
                port = _lookup(each, topic)
                found[:] = [broker for broker in self.running if broker.port == port]
                if found:
                    return True
            return False

        await_true(look, f"{topic} has an owner that runs")
        return found[0]

    def controller(self, topic: str) -> ClusterBroker:
        """Who runs the controller of a scalable topic, of those that are there."""
        path = topic.replace("topic://", "/topics/") + "/controller"
        found: list[ClusterBroker] = []

        def look() -> bool:
            name = json.loads(self.read(path) or b'""')
            found[:] = [each for each in self.running if name == f"{HOST}:{each.web_port}"]
            return bool(found)

        await_true(look, f"{topic} has a controller that runs")
        return found[0]

    def keep(self, broker: ClusterBroker) -> ClusterBroker:
        """Another broker that runs."""
        return next(each for each in self.running if each is not broker)

    def read(self, path: str) -> bytes | None:
        """A record of the brokers' part of the tree."""
        with zookeeper_client(self.bookies.zookeeper.hosts + self.root) as client:
            return bytes(client.get(path)[0]) if client.exists(path) else None

    def read_ledger(self, ledger: int) -> LedgerMetadata:
        """What BookKeeper's own clients read of a ledger."""
        path = f"{LEDGERS}/{format_path(ledger, is_long=False)}"
        with zookeeper_client(self.bookies.zookeeper.hosts) as client:
            return decode_ledger(path, client.get(path)[0])


def _lookup(broker: ClusterBroker, topic: str) -> int:
    connection = http.client.HTTPConnection(HOST, broker.web_port, timeout=30)
    try:
        connection.request("GET", "/lookup/v2/topic/" + topic.replace("://", "/"))
        answer: Any = json.loads(connection.getresponse().read() or b"{}")
        return int(str(answer.get("brokerUrl", ":0")).rpartition(":")[2])
    except (OSError, http.client.HTTPException, ValueError, MagnetarError):
        return 0
    finally:
        connection.close()
