"""The layout of a scalable topic, as its broker tells it, kept current over any loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from magnetar.client.choice import check_name
from magnetar.client.connection import Connection, Type
from magnetar.client.error import ConfigurationError, FeatureNotSupportedError
from magnetar.client.handle import Handle
from magnetar.client.scalable.watch import Watch
from magnetar.client.session import Session
from magnetar.errors import InvalidName
from magnetar.model.layout import Layout
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.scalable import LayoutView
from magnetar.model.segment import SegmentId
from magnetar.wire.command import (
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
)
from magnetar.wire.layout import decode_layout


def parse_scalable(text: str) -> TopicName:
    """A name that may be given where scalable topics are asked for; refusals say what to write."""
    check_name(text)
    try:
        name = parse_topic(text)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None
    if name.domain is TopicDomain.NON_PERSISTENT:
        raise FeatureNotSupportedError(
            f"{name} keeps nothing and cannot be scalable; use client.classic for it"
        )
    if name.domain is TopicDomain.SEGMENT:
        raise ConfigurationError(f"{name} is one segment; write the topic:// it belongs to")
    if name.is_partition:
        raise ConfigurationError(
            f"{name} is one partition; write {name.base}, or use client.classic for it"
        )
    return name


class LayoutWatch(Watch):
    """Open it, then read `view` and `topic`; `on_change` gets every later layout."""

    kind = Type.SCALABLE_TOPIC_UPDATE

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        *,
        create: bool = True,
        on_change: Callable[[LayoutView], None] | None = None,
    ) -> None:
        super().__init__(session, f"the layout of {topic}")
        self.topic = topic
        """The `topic://` name, once it is open."""
        self._asked = topic
        self._create = create
        self._on_change = on_change
        self._view: LayoutView | None = None

    @property
    def view(self) -> LayoutView:
        assert self._view is not None, "the watch is open"
        return self._view

    @property
    def layout(self) -> Layout:
        return self.view.layout

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
        if before is not None and view != before and self._on_change is not None:
            self._on_change(view)


async def resolve_layout(session: Session, topic: TopicName) -> tuple[TopicName, LayoutView]:
    """The `topic://` name and the layout as it is now; what was deleted is not made again."""
    watch = LayoutWatch(session, topic, create=False)
    try:
        await watch.open()
        return watch.topic, watch.view
    finally:
        watch.close()


@dataclass(frozen=True)
class LayoutChange:
    """One layout after another; `before` is None for the one the watch began with."""

    topic: str
    before: Layout | None
    after: Layout

    @property
    def epoch(self) -> int:
        return self.after.epoch

    @property
    def added(self) -> tuple[SegmentId, ...]:
        known = self.before.by_id if self.before is not None else {}
        return tuple(each for each in self.after.by_id if each not in known)

    @property
    def sealed(self) -> tuple[SegmentId, ...]:
        """Segments that took writes before and take none now."""
        active = self.before.active if self.before is not None else ()
        now = {segment.id for segment in self.after.active}
        return tuple(sorted(segment.id for segment in active if segment.id not in now))

    @property
    def removed(self) -> tuple[SegmentId, ...]:
        known = self.before.by_id if self.before is not None else {}
        return tuple(each for each in known if each not in self.after.by_id)


class AsyncLayoutChanges(Handle):
    """An async iterator: the layout there is, then each change; a late reader gets the newest."""

    def __init__(self, session: Session, topic: TopicName) -> None:
        self._session = session
        self._watch = LayoutWatch(session, topic, create=False, on_change=self._on_change)
        self._told: Layout | None = None
        self._is_open = False
        self._is_closed = False
        self._changed = asyncio.Event()

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
