"""The events of one namespace's `__change_events`: replayed once, then followed, by one task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.compaction import open_entry
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.topicpolicy.contract import PolicyHost, PolicyNotice
from magnetar.broker.topicpolicy.event_source import (
    READ_BYTES,
    READ_ENTRIES,
    ChangeEvents,
    NewEvent,
    keep_until_compacted,
    load_events,
)
from magnetar.errors import (
    BrokerError,
    InvalidName,
    LedgerCorrupt,
    LedgerNotFound,
    NoOwner,
    PoliciesUnavailable,
    ProtocolViolation,
    RecordUnreadable,
    ServiceNotReady,
    TopicNotFound,
)
from magnetar.model.hash import java_hash31
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.model.position import EARLIEST, Position
from magnetar.rules.system import change_events_of
from magnetar.runtime.log import Logger
from magnetar.runtime.task import yield_to_loop
from magnetar.wire.command import MessageMetadata, SingleMessageMetadata
from magnetar.wire.entry import decode_entry
from magnetar.wire.policy_event import (
    EVENT_SCHEMA,
    Action,
    PolicyEvent,
    decode_event,
    decode_event_key,
    encode_event,
    encode_event_key,
)

_RETRY_S: Final = 1.0
_LOOK_S: Final = 60.0
"""How long events of another broker may go unnoticed, if the notice of them is lost."""
_REOPENED_MAX: Final = 3
# The first bytes of an event in the schema of today: the branch of a union, then the action.
_UPDATE_HEAD: Final = b"\x02\x04"

_Messages: TypeAlias = Sequence[tuple[MessageMetadata | SingleMessageMetadata, bytes]]

_log = Logger(__name__)


class _Event(NamedTuple):
    """The last event of a key. It is decoded when its policies are asked for: of the many events
    that a cold namespace replays, few are of the topic that waits.
    """

    key: str
    value: bytes
    definition: bytes
    topic: TopicName
    position: Position

    def action(self) -> Action | None:
        """What it does to the event before it, None when it is not about policies. Updates of today
        are not decoded for that. An unreadable one counts as an update: calls about its topic
        are refused.
        """
        if self.value[:2] == _UPDATE_HEAD and self.definition is EVENT_SCHEMA.definition:
            return Action.UPDATE
        try:
            event = self.decode()
        except RecordUnreadable as error:
            _log.error("event cannot be read", reason=error.sentence)
            return Action.UPDATE
        return None if event is None else event.action

    def decode(self) -> PolicyEvent | None:
        """Raise RecordUnreadable with the place; None when it is not about policies."""
        try:
            return _decode(self.key, self.value, self.definition)
        except RecordUnreadable as error:
            place = _place(self.topic, self.position)
            raise RecordUnreadable(f"{place}: {error.sentence}") from None


# A change reads the policies of its topic three times.
_decode: Final = lru_cache(maxsize=256)(decode_event)


def _place(topic: TopicName, position: Position) -> str:
    return f"{topic.full} at {position.ledger_id}:{position.entry_id}"


@dataclass(slots=True)
class _Partition:
    """One partition of the system topic, or all of it, and the first position not read yet."""

    name: TopicName
    next: Position = EARLIEST
    live: PersistentTopic | None = None


class EventLog:
    def __init__(
        self,
        host: PolicyHost,
        sources: OwnerPort[ChangeEvents],
        namespace: NamespaceName,
        names: Sequence[TopicName],
        notify: Callable[[PolicyNotice], None],
        *,
        was_read: bool,
    ) -> None:
        """`was_read`: by a reader that ended, so loaded topics may have missed events."""
        self.namespace = namespace
        self.is_ready = False
        """Whether everything that was there has been read."""
        self._name = change_events_of(namespace).full
        self._host = host
        self._sources = sources
        self._notify = notify
        self._was_read = was_read
        self._partitions = [_Partition(name) for name in names]
        self._events: dict[str, _Event] = {}
        self._definitions: dict[tuple[TopicName, bytes], bytes] = {}
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._stopped = False
        self._failure: BrokerError | None = None
        self._begun = 0
        """How many rounds of reading have begun."""
        self._ended = 0
        """The last of them that read everything."""

    # ------------------------------------------------------------------ the reader

    async def run(self, timeout_s: float) -> None:
        """Replay within the time given, then follow until cancelled or until reading fails."""
        failure: BrokerError = PoliciesUnavailable(f"{self._name} is not read any more")
        try:
            async with self._host.clock.timeout(timeout_s) as replay:
                while not self._stopped:
                    self._wake.clear()
                    pause_s = await self._read_all()
                    if not self.is_ready:
                        replay.reschedule(None)
                        self.is_ready = True
                        self._note_progress()
                        if self._was_read:
                            self._notify(self.namespace)
                    await self._wait_for_more(pause_s)
            return
        except TimeoutError:
            failure = PoliciesUnavailable(
                f"{self._name} could not be read within {timeout_s:g} s; policy calls of"
                f" {self.namespace} are refused until it can"
            )
        except (LedgerCorrupt, LedgerNotFound) as error:
            failure = RecordUnreadable(f"{self._name} is damaged: {error.sentence}")
        except BrokerError as error:
            failure = PoliciesUnavailable(f"{self._name} cannot be read: {error.sentence}")
        finally:
            self._failure = failure
            self._note_progress()
            for partition in self._partitions:
                if partition.live is not None and self.wake in partition.live.log.appended:
                    partition.live.log.appended.remove(self.wake)
        if not self._host.topics.closing:
            _log.error("topic policies cannot be read", reason=failure.sentence)

    def stop(self) -> None:
        """The system topic is gone, and all it said."""
        self._stopped = True
        self._wake.set()

    def wake(self) -> None:
        """There may be something to read: an entry was appended, or a topic was loaded again."""
        self._wake.set()

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    async def _wait(self, is_reached: Callable[[], bool]) -> None:
        """Wait until the reader is there; raise what ended it before."""
        while not is_reached():
            if self._failure is not None:
                raise self._failure
            await self._progress.wait()

    async def _read_all(self) -> float | None:
        """Read what there is; return when to look again, if nothing is certain to notify.

        Ownership of the events may move. Once they were read, what is known stays in force until
        the next owner answers.
        """
        is_notified = True
        self._begun += 1
        try:
            for partition in self._partitions:
                if await self._is_elsewhere(partition):
                    is_notified = False
                    await self._read_elsewhere(partition)
                else:
                    await self._read_partition(partition)
        except (NoOwner, ServiceNotReady) as refusal:
            if not (self.is_ready and self._host.calls.ownership.is_shared):
                raise
            _log.warning("change events not read", topic=self._name, reason=refusal.sentence)
            return _RETRY_S
        self._ended = self._begun
        self._note_progress()
        return None if is_notified else _LOOK_S

    async def _wait_for_more(self, pause_s: float | None) -> None:
        try:
            async with self._host.clock.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _is_elsewhere(self, partition: _Partition) -> bool:
        ownership = self._host.calls.ownership
        if not ownership.is_shared:
            return False
        return not (await ownership.owner_of(partition.name)).is_self

    async def _read_elsewhere(self, partition: _Partition) -> None:
        while True:
            try:
                page = await self._sources.at(partition.name).read(partition.next)
            except TopicNotFound:
                return  # not written to yet, or deleted
            if page is None:
                return
            for index, entry in enumerate(page.entries):
                position = Position(page.ledger_id, page.first + index)
                await self._apply_entry(partition.name, position, entry)
            partition.next = page.next
            self._note_progress()

    async def _read_partition(self, partition: _Partition) -> None:
        for attempt in range(_REOPENED_MAX):
            try:
                partition.live = live = await load_events(self._host, partition.name)
            except TopicNotFound:
                return  # not written to yet, or deleted
            try:
                if self.wake not in live.log.appended:
                    await keep_until_compacted(live)
                    live.log.appended.append(self.wake)
                await self._read_on(partition, live)
                return
            except BrokerError:
                if not live.closed or attempt + 1 == _REOPENED_MAX:
                    raise
                # It was unloaded under the reader; the next owner has the same entries.

    async def _read_on(self, partition: _Partition, live: PersistentTopic) -> None:
        source = live.source(read_compacted=True)
        count = 0
        while True:
            run = source.read_cached(partition.next, READ_ENTRIES, READ_BYTES)
            if run is None:
                run = await source.read(partition.next, READ_ENTRIES, READ_BYTES)
            if run is None:
                return
            for index, entry in enumerate(run.data):
                position = Position(run.ledger_id, run.first + index)
                await self._apply_entry(partition.name, position, entry)
            partition.next = run.next_position
            self._note_progress()
            count += len(run.data)
            if count >= READ_ENTRIES:  # let other tasks run while a long log is replayed
                count = 0
                await yield_to_loop()

    # ------------------------------------------------------------------ events

    async def _apply_entry(self, topic: TopicName, position: Position, entry: bytes) -> None:
        try:
            metadata, payload = decode_entry(entry)
            messages: _Messages = [(metadata, payload)]
            if metadata.HasField("num_messages_in_batch"):  # brokers write none
                opened = [(each.metadata, each.payload) for each in open_entry(entry)[1]]
                messages = [each for each in opened if not each[0].compacted_out]
        except ProtocolViolation as error:
            place = _place(topic, position)
            _log.error("entry is not an event", at=place, reason=error.sentence)
            return
        version = metadata.schema_version
        definition = self._definitions.get((topic, version)) or (
            await self._load_definition(topic, version)
        )
        for message, payload in messages:
            if message.HasField("partition_key"):  # an event always has one
                value = b"" if message.null_value else payload
                self._apply(_Event(message.partition_key, value, definition, topic, position))

    def _apply(self, event: _Event) -> None:
        before = self._events.get(event.key)
        try:
            match event.action():
                case Action.UPDATE:
                    self._events[event.key] = event
                case Action.INSERT:
                    self._events.setdefault(event.key, event)
                case Action.DELETE:
                    self._events.pop(event.key, None)
            if self.is_ready and self._events.get(event.key) is not before:
                self._notify(decode_event_key(event.key)[0])
        except InvalidName as error:
            _log.error("event of an invalid topic", key=event.key, reason=error.sentence)

    async def _load_definition(self, topic: TopicName, version: bytes) -> bytes:
        """The schema an event was written with; today's when it does not say."""
        definition = EVENT_SCHEMA.definition
        if len(version) == 8:
            stored = await self._host.schemas.get(topic, int.from_bytes(version, "big"))
            if stored is not None and stored.schema.definition != definition:
                definition = stored.schema.definition
        self._definitions[topic, version] = definition
        return definition

    # ------------------------------------------------------------------ asking and writing

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait, within the time given, until everything that was written before has been read."""
        if self.is_ready:
            return
        try:
            async with self._host.clock.timeout(timeout_s):
                await self._wait(lambda: self.is_ready)
        except TimeoutError:
            raise PoliciesUnavailable(f"{self._name} was not read within {timeout_s:g} s") from None

    def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        """Raise RecordUnreadable when the topic's last event is not one."""
        event = self._events.get(encode_event_key(topic, is_global=is_global))
        decoded = None if event is None else event.decode()
        return None if decoded is None else decoded.policies

    def has(self, topic: TopicName, *, is_global: bool) -> bool:
        """Whether there is anything in this scope, readable or not."""
        return encode_event_key(topic, is_global=is_global) in self._events

    async def write(
        self, topic: TopicName, policies: TopicPolicies | None, *, is_global: bool, sequence: int
    ) -> None:
        """Append an event and wait until this reader has passed it; None says they are gone.

        The first event creates the system topic, with every partition: a namespace has one when
        partition 0 exists.
        """
        host = self._host
        key = encode_event_key(topic, is_global=is_global)
        for each in self._partitions:
            await self._sources.at(each.name).create()
        partition = self._partitions[java_hash31(key) % len(self._partitions)]
        payload = None
        if policies is not None:
            payload = encode_event(topic, policies, cluster=host.cluster)
        producer = f"{host.producer_name}-topic-policies"
        event = NewEvent(key, is_global, producer, sequence, payload)
        position = await self._sources.at(partition.name).append(event)
        self.wake()
        await self._wait(lambda: position < partition.next)

    async def catch_up(self, timeout_s: float) -> None:
        """Wait, within the time given, until everything that any broker wrote before this moment
        has been read.
        """
        wanted = self._begun + 1
        self.wake()
        try:
            async with self._host.clock.timeout(timeout_s):
                await self._wait(lambda: self._ended >= wanted)
        except TimeoutError:
            raise PoliciesUnavailable(f"{self._name} was not read within {timeout_s:g} s") from None
