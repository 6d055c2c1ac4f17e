"""What the broker tells a planner: topics, their segments, and how far each reaches.

Ledgers and their sizes come over the admin interface. Apache Pulsar has none for segments of
scalable topics: there the last message is asked for over the wire, and nothing is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from magnetar import AdminError, AdminNotFound, AsyncPulsarClient, MessageId, NotFoundError
from magnetar.columns import AsyncBulk, ColumnDecoder, EntryUnreadable
from magnetar.errors import MagnetarError
from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.segment import HashRange, Segment, SegmentId, SegmentState
from magnetar.spark.broker_plan import BrokerPlan, Found, choose_parts
from magnetar.spark.offset import BEFORE_ALL, Offset, Place
from magnetar.spark.option import Bound, Broker, Selection
from magnetar.spark.plan import SegmentView, TopicView
from magnetar.spark.pool import Link
from magnetar.spark.stretch import LedgerSize

_PROBES: Final = 3


class TopicMissing(MagnetarError):
    """There is no such topic, or there is none any more."""


class Survey:
    """Holds a link of its own, for one thread."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Final = broker
        self._link = Link(broker)
        self.admin = self._link.admin
        self.run = self._link.run
        self.plan = BrokerPlan(self.admin)
        self._batch_sizes: dict[tuple[str, int], float] = {}
        self._is_counting = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    # ------------------------------------------------------------------ which topics

    def topics(self, selection: Selection) -> list[str]:
        """Names without a domain, in order."""
        if selection.topics:
            return list(selection.topics)
        assert selection.namespace is not None
        found = set(
            self.admin.scalable_topics.list(
                selection.namespace, properties=dict(selection.properties) or None
            )
        )
        if not selection.properties:
            found |= set(self.admin.topics.list_partitioned(selection.namespace))
            found |= set(self.admin.topics.list(selection.namespace, domain="persistent"))
        names = set()
        for text in found:
            name = parse_topic(text)
            base = name.base if name.is_partition else name
            if name.is_persistent or text.startswith("topic://"):
                names.add(f"{base.namespace}/{base.local}")
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            names = {each for each in names if pattern.fullmatch(each.split("/", 2)[2])}
        return sorted(each for each in names if not each.split("/", 2)[2].startswith("__"))

    def look(
        self,
        selection: Selection,
        *,
        read: Offset | None = None,
        hold: str | None = None,
        start: Bound | None = None,
        counts_messages: bool = False,
    ) -> Found:
        """Every topic of a query as it is now: by one call where the broker has it."""
        if self.plan.is_offered:
            return self.plan.look(selection, read=read, hold=hold, start=start)
        views, missing = {}, []
        for name in self.topics(selection):
            try:
                view = self.view(name, counts_messages=counts_messages)
            except TopicMissing:
                missing.append(name)
                continue
            views[name] = choose_parts(view, selection)
        return Found(views, tuple(missing))

    # ------------------------------------------------------------------ one topic

    def view(self, name: str, *, counts_messages: bool = False) -> TopicView:
        """The segments first, then how far each reaches: one that is sealed grows no more."""
        layout = self.layout(name)
        if layout is None:
            view = self._view_regular(name)
        else:
            view = self._view_scalable(name, layout)
        if counts_messages:
            segments = tuple(self._with_batch_size(each) for each in view.segments)
            view = replace(view, segments=segments)
        return view

    def layout(self, name: str) -> Layout | None:
        """None for a regular topic."""
        try:
            return parse_layout(self.admin.scalable_topics.metadata(name))
        except AdminNotFound:
            return None

    def _view_regular(self, name: str) -> TopicView:
        full = parse_topic(f"persistent://{name}")
        try:
            count = int(self.admin.topics.partitioned_metadata(full.full).get("partitions", 0))
            parts = [full.partition(index).full for index in range(count)] or [full.full]
            segments = tuple(
                self._segment(index, part, lambda part=part: self.admin.topics.internal_stats(part))
                for index, part in enumerate(parts)
            )
        except AdminNotFound:
            raise TopicMissing(f"There is no topic {name}") from None
        return TopicView(name, full.full, segments, len(segments))

    def _view_scalable(self, name: str, layout: Layout) -> TopicView:
        full = parse_topic(f"topic://{name}")
        segments = []
        for each in layout.segments:
            made = self._segment(
                each.id,
                each.name_in(full).full,
                lambda each=each: self.admin.scalable_topics.segment_internal_stats(name, each.id),
            )
            parents = tuple(int(parent) for parent in each.parents)
            segments.append(
                replace(
                    made,
                    parents=parents,
                    is_sealed=each.is_sealed,
                    sealed_ms=each.sealed_at_ms or 0,
                )
            )
        return TopicView(name, full.full, tuple(segments), int(layout.next_id))

    def _segment(self, number: int, topic: str, ask: Any) -> SegmentView:
        if self._is_counting:
            try:
                stats = ask()
                cursors = frozenset(stats.get("cursors", ()))
                return SegmentView(number, topic, parse_ledgers(stats), cursors=cursors)
            except AdminError as error:
                if topic.startswith("persistent://") and isinstance(error, AdminNotFound):
                    if self._exists(topic):
                        return SegmentView(number, topic)
                    raise
                if not topic.startswith("segment://"):
                    raise
                self._is_counting = False
        return SegmentView(number, topic, last=self.last_place(topic))

    def _exists(self, partition: str) -> bool:
        """A partition without a client so far is not there, though its topic is."""
        return parse_topic(partition).is_partition

    # ------------------------------------------------------------------ questions over the wire

    def last_place(self, topic: str) -> Place:
        async def ask(client: AsyncPulsarClient) -> MessageId | None:
            async with AsyncBulk(client).entry_reader(topic, paused=True) as reader:
                return await reader.last_message_id()

        try:
            found = self.run(ask)
        except NotFoundError:
            raise TopicMissing(f"There is no topic {topic}") from None
        return BEFORE_ALL if found is None else Place(found.ledger_id, found.entry_id)

    def place_before(self, segment: SegmentView, at_ms: int) -> Place:
        """The last entry before those published at that time or later."""
        topic = segment.topic

        async def ask(client: AsyncPulsarClient) -> MessageId:
            async with AsyncBulk(client).entry_reader(topic, paused=True) as reader:
                return await reader.find_time(at_ms)

        found = self.run(ask)
        return Place(found.ledger_id, found.entry_id)

    def _with_batch_size(self, segment: SegmentView) -> SegmentView:
        """How many messages an entry holds: the most of a few in its last ledger."""
        ledgers = [each for each in segment.ledgers if each.entries]
        if not ledgers:
            return segment
        newest = ledgers[-1]
        key = (segment.topic, newest.ledger)
        if key not in self._batch_sizes:
            step = max(1, newest.entries // _PROBES)
            places = [MessageId(newest.ledger, each) for each in range(0, newest.entries, step)]
            self._batch_sizes[key] = max(self._probe(segment.topic, each) for each in places)
        return replace(segment, messages_per_entry=self._batch_sizes[key])

    def _probe(self, topic: str, place: MessageId) -> int:
        async def ask(client: AsyncPulsarClient) -> int:
            decoder = ColumnDecoder(("entry",))
            async with AsyncBulk(client).entry_reader(topic, start=place, window=1) as reader:
                entry = (await reader.take(self.broker.timeout_s))[0]
                try:
                    decoder.add(*entry)
                except EntryUnreadable:
                    return 1
            return max(1, decoder.rows)

        count: int = self.run(ask)
        return count


def parse_layout(document: Mapping[str, Any]) -> Layout:
    """The layout that the admin interface tells."""
    segments = tuple(_parse_segment(each) for each in document["segments"].values())
    ordered = tuple(sorted(segments, key=lambda each: each.id))
    return Layout(int(document["epoch"]), SegmentId(int(document["nextSegmentId"])), ordered)


def _parse_segment(document: Mapping[str, Any]) -> Segment:
    span = document["hashRange"]
    sealed_ms = int(document.get("sealedAtMs", -1))
    sealed_epoch = int(document.get("sealedAtEpoch", -1))
    return Segment(
        SegmentId(int(document["segmentId"])),
        HashRange(int(span["start"]), int(span["end"])),
        SegmentState(document["state"]),
        parents=tuple(SegmentId(int(each)) for each in document.get("parentIds", ())),
        children=tuple(SegmentId(int(each)) for each in document.get("childIds", ())),
        created_at_ms=int(document.get("createdAtMs", 0)),
        sealed_at_epoch=None if sealed_epoch < 0 else sealed_epoch,
        sealed_at_ms=None if sealed_ms < 0 else sealed_ms,
        legacy_topic=document.get("legacyTopicName") or "",
    )


def parse_ledgers(stats: Mapping[str, Any]) -> tuple[LedgerSize, ...]:
    """The ledgers of a log; the newest counts up to the last entry that is confirmed."""
    last_ledger, _, last_entry = str(stats.get("lastConfirmedEntry", "-1:-1")).partition(":")
    ledgers = []
    for each in stats.get("ledgers", ()):
        ledger, entries, size = int(each["ledgerId"]), int(each["entries"]), int(each["size"])
        if ledger == int(last_ledger) and int(last_entry) + 1 > entries:
            entries = int(last_entry) + 1
            size = max(size, int(stats.get("currentLedgerSize", 0)))
        ledgers.append(LedgerSize(ledger, entries, size))
    return tuple(sorted(ledgers))


def total_bytes(views: Sequence[TopicView]) -> int:
    return sum(each.size for view in views for part in view.segments for each in part.ledgers)
