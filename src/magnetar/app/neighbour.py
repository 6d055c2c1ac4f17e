"""Whether brokers of Apache Pulsar use a metadata store, or have used it.

Both would call themselves owner of one topic, and each would take the ledgers that the other's
records name for its own: a broker of this project never starts beside them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from magnetar.broker.broker_directory import BROKERS
from magnetar.broker.lease import DIRECTORIES
from magnetar.errors import InvalidConfiguration
from magnetar.metadata.store import MetadataStore
from magnetar.model.document import decode_json

_TRACES: Final = (
    "/namespace",
    "/loadbalance/broker-time-average",
    "/loadbalance/bundle-data",
    "/loadbalance/extension",
    "/service_unit_state",
    "/pulsar/migration-coordinator/participants",
    "/managed-ledgers",
    "/ledgers",
)
"""What brokers of Apache Pulsar and their bookies leave or hold; brokers of this project write some
of it too, but never before they have noted their directory.
"""
_ONLY_APACHE: Final = frozenset({"loadManagerClassName", "loadReportType"})
"""Fields of a registration that brokers of this project do not write."""


async def check_unshared(store: MetadataStore, url: str) -> None:
    """Raise InvalidConfiguration for a store of Apache Pulsar's, before anything is written."""
    for broker in await store.children(BROKERS):
        path = f"{BROKERS}/{broker}"
        stored = await store.get(path)
        if stored is not None and is_apache_registration(stored.value):
            raise _refusal(url, f"{path} is the registration of one that runs")
    if await store.children(DIRECTORIES):
        return
    for path in _TRACES:
        children = await store.children(path)
        if children:
            raise _refusal(url, f"it holds {path}/{children[0]}, and {DIRECTORIES} is empty")


def is_apache_registration(value: bytes) -> bool:
    try:
        found = decode_json(value, dict[str, Any])
    except msgspec.DecodeError:
        return False
    return not _ONLY_APACHE.isdisjoint(found)


def _refusal(url: str, sign: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"brokers of Apache Pulsar use the metadata store {url}: {sign}. The two cannot share one;"
        " give this broker a chroot of its own, for example zk://host:port/magnetar"
    )
