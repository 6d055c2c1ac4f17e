"""Port of the broker that owns a topic of policy events: every broker that serves topics of the
namespace reads it there, and writes to it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.topicpolicy.contract import PolicyHost
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, Position
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import encode_entry
from magnetar.wire.policy_event import EVENT_SCHEMA

READ_ENTRIES: Final = 500
READ_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class EventPage:
    """Consecutive entries of a topic of events."""

    ledger_id: int
    first: int
    entries: tuple[bytes, ...]
    next: Position


@dataclass(frozen=True, slots=True)
class NewEvent:
    key: str
    is_global: bool
    producer: str
    sequence: int
    payload: bytes | None = None
    """None says that the policies are gone."""


class ChangeEvents:
    """Of one topic of events."""

    def __init__(self, host: PolicyHost, topic: TopicName) -> None:
        self._host = host
        self._topic = topic

    async def create(self) -> None:
        """Make the topic, unless it is there."""
        await load_events(self._host, self._topic, create=True)

    async def read(self, start: Position) -> EventPage | None:
        """Entries from a position on, compacted; None when there are no more."""
        live = await load_events(self._host, self._topic)
        await keep_until_compacted(live)
        source = live.source(read_compacted=True)
        run = source.read_cached(start, READ_ENTRIES, READ_BYTES)
        if run is None:
            run = await source.read(start, READ_ENTRIES, READ_BYTES)
        if run is None:
            return None
        entries = tuple(bytes(each) for each in run.data)
        return EventPage(run.ledger_id, run.first, entries, run.next_position)

    async def append(self, event: NewEvent) -> Position:
        host, live = self._host, await load_events(self._host, self._topic, create=True)
        version = await host.schemas.put_if_absent(
            self._topic, EVENT_SCHEMA, live.policy.schema_compatibility
        )
        metadata = MessageMetadata(
            producer_name=event.producer,
            sequence_id=event.sequence,
            publish_time=host.clock.now_ms(),
            partition_key=event.key,
            schema_version=version.to_bytes(8, "big"),
        )
        if event.payload is None:
            metadata.null_value = True
        if not event.is_global:
            metadata.replicate_to.append(host.cluster)
        position = await live.log.append_entry(encode_entry(metadata, event.payload or b""))
        live.last_active_ms = host.clock.now_ms()
        return position


async def load_events(
    host: PolicyHost, topic: TopicName, *, create: bool = False
) -> PersistentTopic:
    live = await host.topics.load_topic(topic, create=create)
    assert isinstance(live, PersistentTopic), "the domain says so"
    return live


async def keep_until_compacted(live: PersistentTopic) -> None:
    """Nothing of the events may be trimmed before it was compacted."""
    if live.log.cursors.get(COMPACTION_CURSOR) is None:
        await live.log.cursors.open(COMPACTION_CURSOR, start=EARLIEST)
