"""Topics as rows with numbers, and their sums: for pages that follow them live.

A row costs a few microseconds, so that thousands can be looked at every few seconds; nothing here
reads a log. Partitions and segments count for their topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple

from msgspec import Struct

from magnetar.broker.administration.port import ListOwners
from magnetar.broker.administration.registry import finds
from magnetar.broker.administration.visibility import Visibility, shown_name
from magnetar.broker.catalog import AnyTopic, TopicCatalog
from magnetar.broker.lag import Lag, measure_lag
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
from magnetar.errors import BadRequest
from magnetar.model.migration import regular_name
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_stored_topic
from magnetar.rules.system import SYSTEM_TENANT, is_own
from magnetar.runtime.task import yield_to_loop

_TOPICS_A_TURN: Final = 100
"""How many are looked at before clients are served."""
_NAMES_A_TURN: Final = 500
_BUSIEST: Final = 5
_ROWS: Final = 100
_ROWS_MAX: Final = 500
_SYSTEM: Final = f"://{SYSTEM_TENANT}/"


class Row(Struct):
    """One topic with everything that belongs to it."""

    name: Final[str]
    kind: Final[str]
    parts: int = 0
    """Partitions or segments that are loaded."""
    isLoaded: Final[bool] = False
    msgRateIn: float = 0.0
    msgRateOut: float = 0.0
    bytesRateIn: float = 0.0
    bytesRateOut: float = 0.0
    storageSize: int = 0
    producers: int = 0
    consumers: int = 0
    subscriptions: int = 0
    lag: int = 0
    """Messages that the slowest subscription has not acknowledged."""
    isLagExact: bool = True
    """Whether the lag is counted; else it is an estimate."""


class Loaded(NamedTuple):
    """What one broker has loaded of a topic."""

    row: Row
    lags: dict[str, int]
    """Messages that each subscription has not acknowledged."""


SORTS: Final = frozenset(Row.__struct_fields__) - {"isLoaded", "isLagExact"}


class Choice(NamedTuple):
    """Which rows are asked for, and in what order."""

    text: str
    """A part of the name."""
    namespace: str
    kind: str
    sort: str
    descending: bool
    offset: int
    limit: int
    include_system: bool


@finds(Choice)
def find_choice(
    text: str | None,
    namespace: str | None,
    kind: str | None,
    sort: str | None,
    descending: bool,
    offset: int | None,
    limit: int | None,
    system: bool,
) -> Choice:
    by, start, count = sort or "name", offset or 0, limit or _ROWS
    if by not in SORTS:
        raise BadRequest(f"sort is one of {', '.join(sorted(SORTS))}, not {by!r}")
    if not 1 <= count <= _ROWS_MAX or start < 0:
        raise BadRequest(f"limit is from 1 to {_ROWS_MAX}, and offset is not negative")
    return Choice(text or "", namespace or "", kind or "", by, descending, start, count, system)


class Names:
    """The topics that a caller sees with their kinds, read anew when there are more or fewer."""

    def __init__(self, owners: ListOwners) -> None:
        self._owners = owners
        self._known: dict[NamespaceName, tuple[int, Mapping[TopicName, str]]] = {}

    async def load(self, visibility: Visibility) -> Mapping[TopicName, str]:
        found = {name: _kind_of(name) for name in visibility.topics}
        resources = self._owners.resources
        for tenant in await resources.tenants.list():
            for namespace in await resources.namespaces.list(tenant):
                if visibility.is_super or namespace in visibility.namespaces:
                    found.update(await self._load_namespace(namespace))
        return found

    async def _load_namespace(self, namespace: NamespaceName) -> Mapping[TopicName, str]:
        """The regular topics that became scalable are not listed twice."""
        scalable = await self._owners.scalable.records.list(namespace)
        were = {regular_name(name) for name in scalable}
        found = {
            name: kind
            for name, kind in (await self._load_regular(namespace)).items()
            if name not in were
        }
        return found | dict.fromkeys(scalable, "scalable")

    async def _load_regular(self, namespace: NamespaceName) -> Mapping[TopicName, str]:
        owners, domain = self._owners, TopicDomain.PERSISTENT
        count = await owners.tree.count(namespace, domain)
        known = self._known.get(namespace)
        if known is None or known[0] != count:
            names: dict[TopicName, str] = {}
            async for run in owners.tree.scan(namespace, domain):
                for start in range(0, len(run), _NAMES_A_TURN):
                    for text in run[start : start + _NAMES_A_TURN]:
                        name = parse_stored_topic(text)
                        names[name.base] = _kind_of(name)
                    await yield_to_loop()
            partitioned = await owners.resources.partitioned.list(namespace, domain)
            names |= dict.fromkeys(partitioned, "partitioned")
            known = self._known[namespace] = count, names
        return known[1]


class Table(NamedTuple):
    total: int
    """How many topics fit the choice."""
    offset: int
    rows: Sequence[Row]


async def load_table(
    loaded: Mapping[str, Row], names: Names, visibility: Visibility, choice: Choice
) -> Table:
    rows = dict(loaded)
    wanted = choice.text.lower()
    for name, kind in (await names.load(visibility)).items():
        if name.full not in rows:
            rows[name.full] = Row(name.full, kind)
    found = [
        row
        for row in rows.values()
        if (not wanted or wanted in row.name.lower())
        and (not choice.kind or row.kind == choice.kind)
        and (not choice.namespace or f"://{choice.namespace}/" in row.name)
        and (choice.include_system or not _is_system(row.name))
    ]
    found.sort(key=lambda row: row.name)
    if choice.sort != "name" or choice.descending:
        found.sort(key=lambda row: getattr(row, choice.sort), reverse=choice.descending)
    return Table(len(found), choice.offset, found[choice.offset : choice.offset + choice.limit])


def sum_topics(rows: Mapping[str, Row]) -> tuple[Row, Sequence[Row]]:
    """All that is loaded and seen, as if it were one topic; and those that take in most."""
    total = Row("", "all")
    for row in rows.values():
        _add_row(total, row)
        total.subscriptions += row.subscriptions
        total.lag += row.lag
    total.parts = len(rows)
    shown = (row for row in rows.values() if not _is_system(row.name))
    return total, nsmallest(_BUSIEST, shown, key=lambda row: (-row.msgRateIn, row.name))


def merge_loaded(brokers: Iterable[Iterable[Loaded]]) -> dict[str, Row]:
    """What several brokers have loaded: partitions and segments of one topic may be at each."""
    rows: dict[str, Row] = {}
    lags: dict[str, dict[str, int]] = {}
    for loaded in brokers:
        for row, own in loaded:
            known = rows.setdefault(row.name, row)
            if known is not row:
                _add_row(known, row)
            total = lags.setdefault(row.name, {})
            for subscription, lag in own.items():
                total[subscription] = total.get(subscription, 0) + lag
    for name, row in rows.items():
        row.subscriptions = len(lags[name])
        row.lag = max(lags[name].values(), default=0)
    return rows


def _add_row(total: Row, row: Row) -> None:
    total.parts += row.parts
    total.msgRateIn += row.msgRateIn
    total.msgRateOut += row.msgRateOut
    total.bytesRateIn += row.bytesRateIn
    total.bytesRateOut += row.bytesRateOut
    total.storageSize += row.storageSize
    total.producers += row.producers
    total.consumers += row.consumers
    total.isLagExact &= row.isLagExact


async def load_loaded(catalog: TopicCatalog, visibility: Visibility) -> tuple[Loaded, ...]:
    """Of the topics that this broker has loaded, those that are seen."""
    found: dict[str, Loaded] = {}
    for number, topic in enumerate(list(catalog.topics.values())):
        if number % _TOPICS_A_TURN == 0:
            await yield_to_loop()
        name = topic.name
        if not visibility.sees(name):
            continue
        if isinstance(topic, PersistentTopic) and topic.successor is not None:
            name = topic.successor  # it was regular, and is drained
        shown = name.full
        if name.domain is TopicDomain.SEGMENT or name.is_partition:
            shown = shown_name(name).full
        loaded = found.get(shown)
        if loaded is None:
            loaded = found[shown] = Loaded(Row(shown, _kind_of(name), isLoaded=True), {})
        _add(loaded.row, topic, loaded.lags)
    return tuple(found.values())


def _add(row: Row, topic: AnyTopic, lags: dict[str, int]) -> None:
    row.parts += 1
    row.msgRateIn += topic.rate_in.count_per_s
    row.bytesRateIn += topic.rate_in.bytes_per_s
    row.producers += len(topic.producers)
    for subscription in topic.subscriptions.values():
        row.msgRateOut += subscription.rate.count_per_s
        row.bytesRateOut += subscription.rate.bytes_per_s
        row.consumers += subscription.consumer_count
        lag = measure_lag(subscription) if isinstance(subscription, Subscription) else Lag()
        lags[subscription.name] = lags.get(subscription.name, 0) + lag.messages
        row.isLagExact &= lag.is_exact
    if isinstance(topic, PersistentTopic):
        row.storageSize += topic.log.sequence.total_bytes


def _kind_of(name: TopicName) -> str:
    if name.domain in (TopicDomain.SEGMENT, TopicDomain.TOPIC):
        return "scalable"
    if name.domain is TopicDomain.NON_PERSISTENT:
        return "non-persistent"
    return "partitioned" if name.is_partition else "regular"


def _is_system(name: str) -> bool:
    """Few names hold what every topic of the broker's own has in its name; only those are looked
    at.
    """
    if "__" not in name and _SYSTEM not in name:
        return False
    return is_own(parse_stored_topic(name))
