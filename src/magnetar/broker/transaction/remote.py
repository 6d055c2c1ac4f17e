"""Participants that other brokers serve, by records in the metadata store.

The coordinator's broker writes that a transaction joins a topic, and later its outcome; the broker
that serves the topic does as it says and confirms it: by a mark, and at the end by removing the
record. Each step may be done twice, and by the next owner of either side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from magnetar.broker.ownership import Ownership
from magnetar.errors import (
    BrokerError,
    RecordNotFound,
    ServiceNotReady,
    VersionConflict,
)
from magnetar.metadata.path import child_of
from magnetar.metadata.store import ABSENT, Cancel, MetadataStore, Record
from magnetar.model.document import decode_document, encode_document
from magnetar.model.name import TopicName, encode_local, parse_topic
from magnetar.model.transaction import TransactionId
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_REMOTE: Final = "/magnetar/transaction/remote"
_CONFIRMED_WITHIN_S: Final = 10.0
_LOOK_S: Final = 1.0


class RemotePart(Struct, frozen=True, kw_only=True):
    """What one transaction is to one topic that another broker serves."""

    topic: str
    most: int
    least: int
    deadlineMs: int
    writes: bool = False
    subscriptions: tuple[str, ...] = ()
    confirmed: bool = False
    """Whether the topic knows all of this."""
    outcome: str = ""
    """Empty while the transaction is open."""


class LocalTopics(Protocol):
    """Topics that this broker serves."""

    async def join_here(
        self,
        name: TopicName,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
    ) -> None: ...

    async def end_here(
        self, name: TopicName, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None: ...


class RemoteParticipants:
    """The coordinator's side."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def join(
        self,
        topic: TopicName,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
    ) -> None:
        def add(known: RemotePart | None) -> RemotePart:
            part = known or RemotePart(
                topic=topic.full, most=id_.most, least=id_.least, deadlineMs=deadline_ms
            )
            names = tuple(dict.fromkeys((*part.subscriptions, *(subscriptions or ()))))
            wanted = replace(part, writes=part.writes or subscriptions is None, subscriptions=names)
            return part if wanted == part else replace(wanted, confirmed=False)

        await self._change(topic, id_, add)
        await self._until(topic, id_, lambda part: part is None or part.confirmed)

    async def end(self, topic: TopicName, id_: TransactionId, *, is_commit: bool) -> None:
        """Done when the record is gone, and so when the outcome is durable there."""
        outcome = "commit" if is_commit else "abort"
        await self._change(
            topic, id_, lambda known: None if known is None else replace(known, outcome=outcome)
        )
        await self._until(topic, id_, lambda part: part is None)

    async def _change(
        self,
        topic: TopicName,
        id_: TransactionId,
        change: Callable[[RemotePart | None], RemotePart | None],
    ) -> None:
        path = _path(topic, id_)
        while True:
            record = await self._store.get(path)
            known = None if record is None else _decode(record)
            wanted = change(known)
            if wanted is None or wanted == known:
                return
            expect = ABSENT if record is None else record.stat.version
            try:
                await self._store.put(path, encode_document(wanted), expect=expect)
                return
            except VersionConflict:
                continue

    async def _until(
        self, topic: TopicName, id_: TransactionId, is_done: Callable[[RemotePart | None], bool]
    ) -> None:
        path, deadline = _path(topic, id_), self._clock.monotonic() + _CONFIRMED_WITHIN_S
        changed = asyncio.Event()
        cancel = self._store.watch(path, lambda _: changed.set())
        try:
            while True:
                changed.clear()
                record = await self._store.get(path)
                if is_done(None if record is None else _decode(record)):
                    return
                if self._clock.monotonic() >= deadline:
                    raise ServiceNotReady(f"The owner of {topic} does not answer")
                try:
                    async with self._clock.timeout(_LOOK_S):
                        await changed.wait()
                except TimeoutError:
                    pass
        finally:
            cancel()


class RemoteRequests:
    """The side of the topics that this broker serves."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        ownership: Ownership,
        topics: LocalTopics,
        tasks: TaskScope,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._topics = topics
        self._reconciler = Reconciler(tasks, "remote transactions", self._serve, clock=clock)
        self._cancel: Cancel | None = None

    def start(self) -> None:
        self._cancel = self._store.watch(_REMOTE, lambda _: self._reconciler.request())
        self._reconciler.request()

    def look(self) -> None:
        """Topics may have moved here."""
        self._reconciler.request()

    def close(self) -> None:
        if self._cancel is not None:
            self._cancel()
        self._reconciler.close()

    async def _serve(self) -> None:
        for node in await self._store.children(_REMOTE):
            parent = child_of(_REMOTE, node)
            async for name, record in self._store.scan_children(parent):
                part, path = _decode(record), child_of(parent, name)
                try:
                    await self._serve_one(path, part, record.stat.version)
                except BrokerError as failure:
                    _log.info("remote transaction waits", part=path, reason=failure.sentence)
                    self._reconciler.request_later()

    async def _serve_one(self, path: str, part: RemotePart, version: int) -> None:
        topic, id_ = parse_topic(part.topic), TransactionId(part.most, part.least)
        if part.confirmed and not part.outcome:
            return
        if not (await self._ownership.owner_of(topic)).is_self:
            return
        try:
            if part.outcome:
                is_commit = part.outcome == "commit"
                durable = await self._topics.end_here(topic, id_, is_commit=is_commit)
                if durable is not None:
                    await durable
                await self._store.delete(path, expect=version)
                return
            if part.writes:
                await self._topics.join_here(topic, id_, part.deadlineMs, None)
            if part.subscriptions:
                await self._topics.join_here(topic, id_, part.deadlineMs, part.subscriptions)
            confirmed = encode_document(replace(part, confirmed=True))
            await self._store.put(path, confirmed, expect=version)
        except (VersionConflict, RecordNotFound):
            self._reconciler.request()  # it has changed meanwhile: look again


def _path(topic: TopicName, id_: TransactionId) -> str:
    return f"{_REMOTE}/{encode_local(topic.full)}/{id_.most}_{id_.least}"


def _decode(record: Record) -> RemotePart:
    return decode_document(record.value, RemotePart)
