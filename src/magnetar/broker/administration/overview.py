"""A broker at a glance: what its topics carry, what its process costs, and who is connected."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence

from magnetar import __version__
from magnetar.broker.administration.registry import Document
from magnetar.broker.administration.sight import Sight
from magnetar.broker.administration.topic_table import sum_topics
from magnetar.broker.connection import Connection
from magnetar.broker.exposition import resident_bytes
from magnetar.broker.service import Service
from magnetar.rules.client_kind import may_be_scalable
from magnetar.runtime.configuration import dynamic_names
from magnetar.runtime.key import Use, format_value, load_keys


async def load_overview(service: Service, sight: Sight) -> Document:
    """Of the broker itself only what a super-user asks; of topics what the caller sees."""
    told: dict[str, object] = {
        "atMs": service.clock.now_ms(),
        "version": __version__,
        "cluster": service.cluster,
        "brokerId": service.broker_id,
        "startedMs": service.started_ms,
        "topics": await sum_topics(service, sight),
    }
    if sight.is_super:
        told["broker"] = _describe_process(service)
    return told


def _describe_process(service: Service) -> Document:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "trouble": service.ledgers.trouble or "",
        "connections": len(service.connections),
        "cpuSeconds": usage.ru_utime + usage.ru_stime,
        "residentBytes": resident_bytes(usage),
        "loopLooks": service.watchdog.looks,
        "loopHeldSeconds": service.watchdog.held_sum_s,
        "loopHeldLongestSeconds": service.watchdog.held_longest_s,
        "queuedBytes": service.ledgers.queued_bytes,
        "unsyncedBytes": service.connections.unsynced_bytes,
        "migrations": {key.value: n for key, n in service.scalable.migrations.outcomes.items()},
        "legacyRefusals": dict(service.scalable.refusals.counts),
        **service.ledgers.counters(),
    }


def list_clients(service: Service) -> Sequence[Document]:
    """Every connection of the binary protocol, with what it has attached."""
    return [_describe_client(each) for each in service.connections]


def _describe_client(connection: Connection) -> Document:
    announces = connection.features.supports_scalable_topics
    producers = [{"topic": p.topic.name.full, "name": p.name} for p in connection.producers]
    consumers = [
        {"topic": place.topic.name.full, "name": each.name, "subscription": place.name}
        for each in connection.consumers
        if (place := each.subscription) is not None
    ]
    return {
        "address": connection.address,
        "version": connection.client_version,
        "protocolVersion": connection.protocol_version,
        "role": connection.caller.original_role or connection.caller.role,
        "isScalable": may_be_scalable(connection.client_version, announces=announces),
        "producers": producers,
        "consumers": consumers,
    }


def list_configuration(service: Service) -> Sequence[Document]:
    """The keys that act here, each with its value; a secret is not told."""
    values: Mapping[str, str] = service.config.format_values()
    dynamic = frozenset(dynamic_names())
    return [
        {
            "name": key.name,
            "value": values.get(key.name, ""),
            "default": "" if key.secret else format_value(key.standalone_default),
            "isDynamic": key.name in dynamic,
            "expected": key.expected,
            "meaning": key.meaning,
        }
        for key in load_keys().values()
        if key.use is Use.ACTING
    ]
