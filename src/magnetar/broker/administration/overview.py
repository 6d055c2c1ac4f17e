"""Brokers at a glance: what their topics carry, what their processes cost, and who is connected.

Where there are several, each is asked: a page shows the same wherever it is opened.
"""

from __future__ import annotations

import resource
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from magnetar import __version__
from magnetar.broker.administration.port import (
    ListOwners,
    ProcessOwners,
    SessionOwners,
    ViewOwners,
    VisibilityOwners,
)
from magnetar.broker.administration.registry import Document, Live, carries_out, finds
from magnetar.broker.administration.topic_table import (
    Choice,
    Loaded,
    Names,
    Row,
    load_loaded,
    load_table,
    merge_loaded,
    sum_topics,
)
from magnetar.broker.administration.visibility import Visibility, find_visibility
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.connection import Connection, Connections
from magnetar.broker.exposition import resident_bytes
from magnetar.broker.other_broker import OtherBrokers
from magnetar.broker.port import HasCluster
from magnetar.model.caller import Caller
from magnetar.model.permission import SUPER_USER, Target
from magnetar.rules.client_kind import may_be_scalable
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.key import Use, format_value, load_keys

P = ParamSpec("P")
R = TypeVar("R")


class BrokerView:
    """Port of a broker: what it shows of itself."""

    def __init__(self, owners: ProcessOwners) -> None:
        self._owners = owners

    async def topics(self, visibility: Visibility) -> tuple[Loaded, ...]:
        return await load_loaded(self._owners.catalog, visibility)

    async def process(self) -> dict[str, Any]:
        owners = self._owners
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counters = dict(owners.ledgers.counters())
        return {
            "atMs": owners.clock.now_ms(),
            "startedMs": owners.started_ms,
            "trouble": owners.ledgers.trouble or "",
            "connections": len(owners.connections),
            "cpuSeconds": usage.ru_utime + usage.ru_stime,
            "residentBytes": resident_bytes(usage),
            "loopLooks": owners.watchdog.looks,
            "loopHeldSeconds": owners.watchdog.held_sum_s,
            "loopHeldLongestSeconds": owners.watchdog.held_longest_s,
            "queuedBytes": owners.ledgers.queued_bytes,
            "unsyncedBytes": owners.connections.unsynced_bytes,
            "migrations": {key.value: n for key, n in owners.scalable.migrations.outcomes.items()},
            "legacyRefusals": dict(owners.scalable.refusals.counts),
            **counters.pop("", {}),
            "bookies": counters,
        }

    async def clients(self) -> tuple[dict[str, Any], ...]:
        return tuple(_describe_clients(self._owners.connections))


class BrokerViews:
    """What all brokers show; those that do not answer show nothing."""

    def __init__(self, owners: ViewOwners) -> None:
        self._owners = owners
        self._here = BrokerView(owners)
        owners.calls.offer(BrokerView, lambda topic: self._here)
        self._others = (
            OtherBrokers(owners.calls, owners.ownership, clock=owners.clock)
            if isinstance(owners.ownership, BundleOwnership)
            else None
        )

    async def topics(self, visibility: Visibility) -> Mapping[str, Row]:
        found = await self._ask(BrokerView.topics, visibility)
        return merge_loaded(each for each in found.values() if each is not None)

    async def overview(self, visibility: Visibility, *, cluster: str) -> Document:
        """Of the brokers themselves only what a super-user asks; of topics what the caller sees."""
        owners = self._owners
        total, busiest = sum_topics(await self.topics(visibility))
        found: dict[str, object] = {
            "atMs": owners.clock.now_ms(),
            "version": __version__,
            "cluster": cluster,
            "brokerId": owners.broker_id,
            "startedMs": owners.started_ms,
            "topics": total,
            "busiest": busiest,
        }
        if visibility.is_super:
            processes = await self._ask(BrokerView.process)
            found["brokers"] = {name: each for name, each in processes.items() if each is not None}
            found["silentBrokers"] = [name for name, each in processes.items() if each is None]
        return found

    async def clients(self) -> Sequence[Document]:
        found = await self._ask(BrokerView.clients)
        return [client for each in found.values() for client in each or ()]

    async def _ask(
        self,
        method: Callable[Concatenate[BrokerView, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Mapping[str, R | None]:
        """This broker comes first."""
        own: R = await getattr(self._here, method.__name__)(*args, **kwargs)
        others = self._others
        asked = {} if others is None else await others.ask(method, self._here, *args, **kwargs)
        return {self._owners.broker_id: own, **asked}


@finds(BrokerViews)
def find_views(owners: ViewOwners) -> BrokerViews:
    return BrokerViews(owners)


@carries_out("console.overview")
async def show_overview(
    views: BrokerViews, seen_by: VisibilityOwners, owners: HasCluster, caller: Caller
) -> Live:
    async def load() -> Document:
        seen = await find_visibility(seen_by, caller)
        return await views.overview(seen, cluster=owners.cluster)

    return Live(load)


@carries_out("console.topics")
async def show_topics(
    views: BrokerViews,
    owners: ListOwners,
    seen_by: VisibilityOwners,
    caller: Caller,
    choice: Choice,
) -> Live:
    names = Names(owners)

    async def load() -> Document:
        seen = await find_visibility(seen_by, caller)
        return (await load_table(await views.topics(seen), names, seen, choice))._asdict()

    return Live(load)


@carries_out("console.clients")
async def list_clients(views: BrokerViews) -> Sequence[Document]:
    return await views.clients()


@carries_out("console.session")
async def get_session(owners: SessionOwners, caller: Caller) -> Document:
    return {
        "role": caller.original_role or caller.role,
        "isAnonymous": caller.is_anonymous,
        "isSuper": await owners.authorization.may(caller, SUPER_USER, Target()),
        "isAuthenticationEnabled": owners.authentication.is_enabled,
        "version": __version__,
        "cluster": owners.cluster,
        "brokerId": owners.broker_id,
    }


def _describe_clients(connections: Connections) -> Iterator[dict[str, Any]]:
    """Every connection of the binary protocol, with what it has attached."""
    return map(_describe_client, connections)


def _describe_client(connection: Connection) -> dict[str, Any]:
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


@carries_out("console.configuration")
async def list_configuration(config: Configuration) -> Sequence[Document]:
    """The keys that act here, each with its value; a secret is not shown."""
    values: Mapping[str, str] = config.format_values()
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
