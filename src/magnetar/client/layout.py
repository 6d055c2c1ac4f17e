"""The layout of a scalable topic, as its broker tells it, kept current over any loss."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, Self

from magnetar.client.connection import Connection, Type
from magnetar.client.error import ConfigurationError, FeatureNotSupportedError
from magnetar.client.event import LayoutChange
from magnetar.client.handle import Handle
from magnetar.client.keyword import check_name
from magnetar.client.session import Session
from magnetar.client.watch import Watch
from magnetar.errors import InvalidName
from magnetar.model.layout import Layout
from magnetar.model.name import TopicDomain, TopicName, parse_stored_topic, parse_topic
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import WHOLE, HashRange, Segment
from magnetar.rules.route import KeyHash, SegmentHash, route_partition, route_turn, segment_hash
from magnetar.wire.command import (
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
)
from magnetar.wire.layout import decode_layout

_APACHE: Final = re.compile(r"Pulsar Server-?v?(\d+)\.(\d+)\.(\d+)(?:-M(\d+))?")
_FINAL: Final = 1 << 30
"""The milestone of a version that is none: it comes after all of them."""
_LAST_LOW: Final = (5, 0, 0, 1)


def is_apache(server_version: str) -> bool:
    """Whether the broker is Apache Pulsar, any release of it."""
    return _APACHE.match(server_version) is not None


def decide_half(server_version: str) -> SegmentHash:
    """Apache Pulsar after 5.0.0-M1 places keys by the high half of a hash, others by the low."""
    found = _APACHE.match(server_version)
    if found is None:
        return SegmentHash.LOW
    release = int(found[1]), int(found[2]), int(found[3])
    milestone = int(found[4]) if found[4] else _FINAL
    return SegmentHash.HIGH if (*release, milestone) > _LAST_LOW else SegmentHash.LOW


def route_key(layout: Layout, key: str, *, half: SegmentHash, legacy: KeyHash) -> Segment:
    """Regular topics are routed as their partitions are: by remainder, in the order of ids."""
    if layout.is_synthetic:
        parts = sorted(layout.active, key=lambda segment: segment.id)
        return parts[route_partition(key, len(parts), hashing=legacy)]
    return layout.find_active(segment_hash(key, half=half))


def route_any(layout: Layout, turn: int) -> Segment:
    return layout.active[route_turn(turn, len(layout.active))]


def span_of(segment: Segment) -> HashRange:
    """The hashes of keys that may be in it: a legacy segment holds keys of all hashes."""
    return WHOLE if segment.is_legacy else segment.range


def overlaps(one: HashRange, other: HashRange) -> bool:
    return one.first <= other.last and other.first <= one.last


PARTITION_CHECK_S: Final = 60.0


def parse_name(text: str) -> TopicName:
    """The name of a topic of any kind; refusals say what to write."""
    check_name(text)
    try:
        name = parse_stored_topic(text)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None
    if name.domain is TopicDomain.SEGMENT:
        raise ConfigurationError(f"{name} is one segment; write the topic:// it belongs to")
    return name


def parse_scalable(text: str) -> TopicName:
    """A topic that is scalable or may become so."""
    name = parse_name(text)
    if name.domain is TopicDomain.NON_PERSISTENT:
        raise FeatureNotSupportedError(
            f"{name} keeps nothing and cannot be scalable; use client.consumer for it"
        )
    if name.is_partition:
        raise ConfigurationError(
            f"{name} is one partition; write {name.base}, or use client.consumer for it"
        )
    return name


def parse_regular(topic: str) -> TopicName:
    """A topic that is not scalable."""
    name = parse_name(topic)
    if name.domain is TopicDomain.TOPIC:
        raise ConfigurationError(
            f"{topic} is a scalable topic; use client.queue_consumer, stream_consumer or"
            " checkpoint_consumer"
        )
    return name


class TopicLayout(Protocol):
    """The segments of a topic now, and every change of them."""

    @property
    def topic(self) -> TopicName: ...

    @property
    def name(self) -> str:
        """The topic as its application knows it."""

    @property
    def view(self) -> LayoutView: ...

    @property
    def server_version(self) -> str: ...

    @property
    def is_followed(self) -> bool:
        """Whether it tells when a regular topic becomes scalable."""

    @property
    def is_current(self) -> bool:
        """Whether it tells of every change by itself, and its broker can."""

    def refresh(self) -> None: ...

    def close(self) -> None: ...


class LayoutWatch(Watch):
    """Open it, then read `view` and `topic`; `on_change` gets every later layout."""

    is_followed = True

    kind = Type.SCALABLE_TOPIC_UPDATE

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        *,
        create: bool = True,
        on_change: Callable[[LayoutView], None] | None = None,
        on_told: Callable[[], None] | None = None,
    ) -> None:
        """`on_told` is called after every answer, of a layout that is the same too."""
        super().__init__(session, f"the layout of {topic}")
        self.topic = topic
        """The `topic://` name, once it is open."""
        self._asked = topic
        self._create = create
        self._on_change = on_change
        self._on_told = on_told
        self._view: LayoutView | None = None
        self._growth: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """A regular topic has its own until it is scalable."""
        return self._asked.full if self.layout.is_synthetic else self.topic.full

    @property
    def view(self) -> LayoutView:
        assert self._view is not None, "the watch is open"
        return self._view

    @property
    def layout(self) -> Layout:
        return self.view.layout

    @property
    def is_current(self) -> bool:
        return self.failure is None and self._growth is None

    async def open(self) -> None:
        await super().open()
        if not self.layout.is_synthetic:
            return
        if self._create:  # it may be the policy of its namespace to make partitions
            count = await self._session.lookup.count_partitions(self._asked)
            if count > len(self.layout.active):
                await self._attempt(is_first=False)
        if is_apache(self.server_version):  # which does not tell of partitions that are added
            self._growth = self._session.scope.periodic(
                PARTITION_CHECK_S, self.refresh, f"partitions of {self._asked}"
            )

    def close(self) -> None:
        if self._growth is not None:
            self._growth.cancel()
        super().close()

    async def _connect(self) -> Connection:
        return await self._session.lookup.connect(self._asked)

    def _hello(self, id: int, *, is_first: bool) -> CommandScalableTopicLookup:
        # A topic deleted meanwhile must not be made again by those who watch it.
        create = self._create and is_first
        return CommandScalableTopicLookup(
            session_id=id, topic=self._asked.full, create_if_missing=create
        )

    def goodbye(self, id: int) -> CommandScalableTopicClose:
        return CommandScalableTopicClose(session_id=id)

    def _on_news(self, body: CommandScalableTopicUpdate) -> None:
        view = decode_layout(body)
        if body.resolved_topic_name:
            self.topic = parse_topic(body.resolved_topic_name)
            if not view.layout.is_synthetic:  # once scalable, always: never again by the old name
                self._asked = self.topic
        before, self._view = self._view, view
        if before is not None:
            self._session.events.report_layout(self.topic.full, before.layout, view.layout)
        if before is not None and view != before and self._on_change is not None:
            self._on_change(view)
        if before is not None and self._on_told is not None:
            self._on_told()


class PartitionLayout:
    """A regular topic that stays one, as a layout: of its partitions, and those that are added."""

    is_followed = False
    is_current = False
    server_version = ""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        *,
        create: bool = True,
        on_change: Callable[[LayoutView], None] | None = None,
    ) -> None:
        self.topic = topic
        self.view = LayoutView(
            Layout.synthetic([topic.full], now_ms=0), key_hash=KeyHash.JAVA_STRING
        )
        self._session = session
        self._create = create
        self._on_change = on_change
        self._growth: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.topic.full

    @property
    def layout(self) -> Layout:
        return self.view.layout

    async def open(self) -> None:
        if self.topic.is_partition:
            return
        count = await self._session.lookup.count_partitions(self.topic, create=self._create)
        if count:
            self._adopt(count)
            self._growth = self._session.scope.periodic(
                PARTITION_CHECK_S, self._grow, f"partitions of {self.topic}"
            )

    def refresh(self) -> None:
        if self._growth is not None:
            self._session.scope.start(self._grow(), f"partitions of {self.topic}")

    def close(self) -> None:
        if self._growth is not None:
            self._growth.cancel()

    async def _grow(self) -> None:
        count = await self._session.lookup.count_partitions(self.topic, create=False)
        if count > len(self.layout.active):
            self._adopt(count)
            if self._on_change is not None:
                self._on_change(self.view)

    def _adopt(self, count: int) -> None:
        names = [self.topic.partition(index).full for index in range(count)]
        self.view = replace(self.view, layout=Layout.synthetic(names, now_ms=0))


async def open_layout(
    session: Session,
    topic: TopicName,
    *,
    on_change: Callable[[LayoutView], None],
    on_told: Callable[[], None] | None = None,
) -> TopicLayout:
    """Of any topic: what cannot become scalable, or not on its broker, is looked at as it is."""
    source: LayoutWatch | PartitionLayout
    if topic.domain is TopicDomain.TOPIC or (
        topic.is_persistent
        and not topic.is_partition
        and await session.lookup.has_scalable_topics()
    ):
        source = LayoutWatch(session, topic, on_change=on_change, on_told=on_told)
    else:
        source = PartitionLayout(session, topic, on_change=on_change)
    try:
        await source.open()
    except BaseException:
        source.close()
        raise
    return source


async def resolve_layout(session: Session, topic: TopicName) -> tuple[TopicName, LayoutView]:
    """The `topic://` name and the layout as it is now; what was deleted is not made again."""
    watch = LayoutWatch(session, topic, create=False)
    try:
        await watch.open()
        return watch.topic, watch.view
    finally:
        watch.close()


class AsyncLayoutChanges(Handle):
    """An async iterator: the layout there is, then each change; a late reader gets the newest."""

    def __init__(self, session: Session, topic: TopicName) -> None:
        self._session = session
        self._watch = LayoutWatch(session, topic, create=False, on_change=self._on_change)
        self._told: Layout | None = None
        self._is_open = False
        self._is_closed = False
        self._changed = asyncio.Event()

    @property
    def topic(self) -> str:
        return self._watch.topic.full

    def _tell_state(self) -> str:
        return "closed" if self._is_closed else "open"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LayoutChange:
        if not self._is_open:
            await self._open()
        while not self._is_closed:
            newest = self._watch.layout
            if newest != self._told:
                change = LayoutChange(self._watch.topic.full, self._told, newest)
                self._told = newest
                return change
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration

    async def close(self) -> None:
        self._is_closed = True
        self._watch.close()
        self._session.made.pop(self, None)
        self._changed.set()

    async def _open(self) -> None:
        if self._is_closed:
            raise StopAsyncIteration
        await self._watch.open()
        self._is_open = True
        self._session.made[self] = None

    def _on_change(self, view: LayoutView) -> None:
        self._changed.set()
