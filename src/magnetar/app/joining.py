"""Whether a broker may join the cluster of a metadata store, and what a new cluster begins with.

Nothing is deleted: what does not belong together is refused by name, before the broker is listed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Final

from magnetar.app.metadata import Stores
from magnetar.app.neighbour import is_apache_registration
from magnetar.broker.broker_directory import BROKERS
from magnetar.broker.lease import DIRECTORIES
from magnetar.broker.resource import CLUSTERS
from magnetar.errors import InvalidConfiguration, VersionConflict
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.bookie import LEDGERS, cluster_records
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

_AVAILABLE: Final = f"{LEDGERS}/available"
_READ_ONLY: Final = "readonly"
_INSTANCE: Final = f"{LEDGERS}/INSTANCEID"
_LOGS: Final = "/managed-ledgers"
_GLOBAL: Final = "global"
"""A cluster in name only, which Pulsar's own set-up makes."""
_DEFAULT_NAME: Final = "standalone"
_COOKIE_INSTANCE: Final = re.compile(rb'instanceId:\s*"([^"]*)"')

_log = Logger(__name__)


async def check_neighbours(store: MetadataStore, url: str) -> None:
    """Raise InvalidConfiguration beside brokers that know nothing of ours: those of Apache Pulsar
    that run, and brokers of this project with ledgers in files.
    """
    running = []
    for broker in await store.children(BROKERS):
        stored = await store.get(f"{BROKERS}/{broker}")
        if stored is not None and is_apache_registration(stored.value):
            running.append(broker)
    if running:
        raise InvalidConfiguration(
            f"brokers of Apache Pulsar run on {url}: {', '.join(running)}. One kind of broker at a"
            " time serves a cluster: stop them first; one that was killed is listed until its"
            " session ends"
        )
    homes = await store.children(DIRECTORIES)
    if homes:
        raise InvalidConfiguration(
            f"{url} belongs to brokers that keep their ledgers in files"
            f" ({DIRECTORIES}/{homes[0]}): start this one with --ledgers files, or give it a chroot"
            " of its own, for example zk://host:port/cluster"
        )


async def find_cluster(stores: Stores, settings: Configuration, url: str) -> str:
    """The name of the cluster that the broker belongs to; raise InvalidConfiguration when that is
    not clear, or when the store holds only a part of a cluster.
    """
    clusters = [each for each in await stores.configuration.children(CLUSTERS) if each != _GLOBAL]
    logs = await stores.local.children(_LOGS)
    name = settings.clusterName
    if name in clusters:
        return name
    if clusters and (logs or stores.local is stores.configuration):
        return _choose_name(clusters, name, url)
    if logs:
        raise InvalidConfiguration(
            f"{url} holds logs of topics ({_LOGS}/{logs[0]}) and no cluster ({CLUSTERS} is empty):"
            " it has lost a part of its data; bring that back before a broker starts"
        )
    return name or _DEFAULT_NAME


def _choose_name(clusters: Sequence[str], name: str, url: str) -> str:
    if not name and len(clusters) == 1:
        return clusters[0]
    what = f"there is no cluster {name}" if name else "there are several clusters"
    raise InvalidConfiguration(
        f"{what} in {url}, which has {', '.join(clusters)}: set clusterName to one of them"
    )


async def ensure_bookies(store: MetadataStore, url: str) -> None:
    """See that bookies of one cluster are registered; what a BookKeeper begins with is written
    where there is nothing of it.

    Raise InvalidConfiguration for a part of a cluster, and for bookies of another one.
    """
    instance = await store.get(_INSTANCE)
    if instance is None:
        if await store.exists(LEDGERS):
            raise InvalidConfiguration(
                f"{url}{LEDGERS} has no INSTANCEID: BookKeeper is set up in part, or ZooKeeper has"
                " lost its data; bring it back, or set up a new cluster under another chroot"
            )
        logs = await store.children(_LOGS)
        if logs:
            raise InvalidConfiguration(
                f"{url} holds logs of topics ({_LOGS}/{logs[0]}) and no {LEDGERS}: it has lost a"
                " part of its data; bring that back before a broker starts"
            )
        identity = await _format_ledgers(store)
    else:
        identity = instance.value
    bookies = await _list_bookies(store)
    if not bookies:
        raise InvalidConfiguration(
            f"no bookie is registered at {url}{_AVAILABLE}: start bookies with"
            f" metadataServiceUri=zk+hierarchical://HOST:PORT{LEDGERS} on this ZooKeeper, then this"
            " broker; or keep messages in files of one broker: --ledgers files. If bookies were"
            " registered here before, ZooKeeper has lost its data: restore it from a snapshot;"
            " bookies keep theirs and refuse to serve until then"
        )
    for bookie in bookies:
        await _check_cookie(store, bookie, identity, url)


async def _format_ledgers(store: MetadataStore) -> bytes:
    """What BookKeeper's own set-up writes; another broker may do it at the same moment."""
    identity = str(uuid.uuid4()).encode()
    for path, value in cluster_records(identity).items():
        try:
            await store.put(f"{LEDGERS}/{path}", value, expect=ABSENT)
        except VersionConflict:
            continue
    _log.info("a new BookKeeper cluster was set up", path=LEDGERS)
    found = await store.get(_INSTANCE)
    return identity if found is None else found.value


async def _list_bookies(store: MetadataStore) -> list[str]:
    writable = [each for each in await store.children(_AVAILABLE) if each != _READ_ONLY]
    return [*writable, *await store.children(f"{_AVAILABLE}/{_READ_ONLY}")]


async def _check_cookie(store: MetadataStore, bookie: str, identity: bytes, url: str) -> None:
    cookie = await store.get(f"{LEDGERS}/cookies/{bookie}")
    found = None if cookie is None else _COOKIE_INSTANCE.search(cookie.value)
    if cookie is None:
        what = "has no cookie there: ZooKeeper has lost its data, or the bookie is of another one"
    elif found is not None and found.group(1) != identity:
        what = f"belongs to the cluster {found.group(1).decode()}, not to {identity.decode()}"
    else:
        return
    raise InvalidConfiguration(
        f"the bookie {bookie}, registered at {url}{_AVAILABLE}, {what}; messages would be spread"
        " over bookies that do not belong together. Nothing was changed. Stop that bookie, or give"
        " it the metadataServiceUri of its own cluster; if it is this ZooKeeper that lost its data,"
        " restore it from a snapshot"
    )
