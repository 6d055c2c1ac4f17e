"""One namespace's `__change_events`: replayed once, then followed, by one task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.broker.compaction import open_entry
from magnetar.broker.heartbeat import append_entry
from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import (
    BrokerError,
    InvalidName,
    LedgerCorrupt,
    LedgerNotFound,
    PoliciesUnavailable,
    ProtocolViolation,
    RecordUnreadable,
    TopicNotFound,
)
from magnetar.model.hash import java_hash31
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.model.position import EARLIEST, Position
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.rules.system import change_events_of
from magnetar.runtime.log import Log
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import decode_entry, encode_entry
from magnetar.wire.policy_event import (
    EVENT_SCHEMA,
    Action,
    PolicyEvent,
    decode_event,
    encode_event,
    encode_event_key,
)

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_READ_ENTRIES: Final = 500
_READ_BYTES: Final = 4 << 20
_REOPENED_MAX: Final = 3
# The first bytes of an event in the schema of today: the branch of a union, then the action.
_UPDATE_HEAD: Final = b"\x02\x04"

_log = Log(__name__)

Told = Callable[[PolicyEvent], None]


class _Kept:
    """The last event of a key. It is decoded when somebody asks: of the many events that a cold
    namespace replays, few are of the topic that waits.
    """

    __slots__ = ("_definition", "_event", "_key", "_position", "_topic", "_value")

    def __init__(
        self, key: str, value: bytes, definition: bytes, topic: TopicName, position: Position
    ) -> None:
        self._key = key
        self._value = value
        self._definition = definition
        self._topic = topic
        self._position = position
        self._event: PolicyEvent | None = None

    def is_plain(self) -> bool:
        """Whether it replaces what was there, as events of today do."""
        return self._value[:2] == _UPDATE_HEAD and self._definition is EVENT_SCHEMA.definition

    def event(self) -> PolicyEvent | None:
        """Raise RecordUnreadable with the place; None when it is not about policies."""
        if self._event is None:
            try:
                self._event = decode_event(self._key, self._value, self._definition)
            except RecordUnreadable as error:
                where = _place(self._topic, self._position)
                raise RecordUnreadable(f"{where}: {error.sentence}") from None
        return self._event


def _place(topic: TopicName, position: Position) -> str:
    return f"{topic.full} at {position.ledger_id}:{position.entry_id}"


@dataclass(slots=True)
class _Part:
    """One topic of the log, and the first position that was not read yet."""

    name: TopicName
    next: Position = EARLIEST
    live: PersistentTopic | None = None


class ChangeLog:
    def __init__(
        self, service: Service, namespace: NamespaceName, names: Sequence[TopicName], told: Told
    ) -> None:
        self.namespace = namespace
        self._service = service
        self._told = told
        self._parts = [_Part(name) for name in names]
        self._kept: dict[str, _Kept] = {}
        self._definitions: dict[tuple[TopicName, bytes], bytes] = {}
        self._wake = asyncio.Event()
        self._stopped = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting: list[tuple[_Part, Position, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._kept)

    # ------------------------------------------------------------------ the reader

    async def run(self, timeout_s: float) -> None:
        """Replay within the time given, then follow until cancelled or until reading fails."""
        failure: BrokerError = PoliciesUnavailable(f"{self._name()} is not read any more")
        try:
            async with asyncio.timeout(timeout_s):
                await self._read_all()
            if not self._ready.done():
                self._ready.set_result(None)
            while not self._stopped:
                await self._wake.wait()
                self._wake.clear()
                await self._read_all()
            return
        except TimeoutError:
            failure = PoliciesUnavailable(
                f"{self._name()} could not be read within {timeout_s:g} s; policy calls of"
                f" {self.namespace} are refused until it can"
            )
        except (LedgerCorrupt, LedgerNotFound) as error:
            failure = RecordUnreadable(f"{self._name()} is damaged: {error.sentence}")
        except BrokerError as error:
            failure = PoliciesUnavailable(f"{self._name()} cannot be read: {error.sentence}")
        finally:
            self._end(failure)
        if not self._service.closing:
            _log.error("topic policies cannot be read", reason=failure.sentence)

    def _name(self) -> str:
        return change_events_of(self.namespace).full

    def _end(self, failure: BrokerError) -> None:
        """Whoever waits for this reader must not wait for ever."""
        for part in self._parts:
            self._detach(part)
        if not self._ready.done():
            self._ready.set_exception(failure)
            self._ready.exception()  # nobody may be waiting
        for _, _, passed in self._waiting:
            if not passed.done():
                passed.set_exception(failure)
                passed.exception()
        self._waiting.clear()

    def stop(self) -> None:
        """The system topic is gone, and all it said."""
        self._stopped = True
        self._wake.set()

    def wake(self) -> None:
        """There may be something to read: an entry was appended, or a part was loaded again."""
        self._wake.set()

    async def _read_all(self) -> None:
        for part in self._parts:
            await self._read_part(part)

    async def _read_part(self, part: _Part) -> None:
        for attempt in range(_REOPENED_MAX):
            try:
                await self._attach(part)
            except TopicNotFound:
                return  # a partition that was not written to yet, or that is gone
            try:
                await self._read_on(part)
                return
            except BrokerError:
                if (part.live is not None and not part.live.closed) or attempt + 1 == _REOPENED_MAX:
                    raise
                # It was unloaded under the reader; the next owner has the same entries.

    async def _attach(self, part: _Part) -> None:
        live = await self._service.load_topic(part.name)
        assert isinstance(live, PersistentTopic), "the domain says so"
        if live is not part.live:
            self._detach(part)
            part.live = live
            # Nothing of it may be trimmed before it was compacted.
            await live.chain.open_cursor(COMPACTION_CURSOR, start=EARLIEST)
            live.chain.appended.append(self.wake)

    def _detach(self, part: _Part) -> None:
        if part.live is not None and self.wake in part.live.chain.appended:
            part.live.chain.appended.remove(self.wake)
        part.live = None

    async def _read_on(self, part: _Part) -> None:
        assert part.live is not None
        source = part.live.source(read_compacted=True)
        count = 0
        while True:
            run = source.read_cached(part.next, _READ_ENTRIES, _READ_BYTES)
            if run is None:
                run = await source.read(part.next, _READ_ENTRIES, _READ_BYTES)
            if run is None:
                return
            for index, entry in enumerate(run.data):
                await self._apply_entry(part, Position(run.ledger_id, run.first + index), entry)
            part.next = run.next_position
            self._release(part)
            count += len(run.data)
            if count >= _READ_ENTRIES:  # others want their turn while a long log is replayed
                count = 0
                await asyncio.sleep(0)

    def _release(self, part: _Part) -> None:
        still = []
        for waiting in self._waiting:
            if waiting[0] is part and waiting[1] < part.next:
                if not waiting[2].done():
                    waiting[2].set_result(None)
            else:
                still.append(waiting)
        self._waiting = still

    # ------------------------------------------------------------------ events

    async def _apply_entry(self, part: _Part, position: Position, entry: bytes) -> None:
        try:
            metadata, payload = decode_entry(entry)
            if not metadata.HasField("num_messages_in_batch"):  # as brokers write them
                if metadata.HasField("partition_key"):  # an event always has one
                    value = b"" if metadata.null_value else payload
                    await self._apply_message(
                        part, position, metadata, metadata.partition_key, value
                    )
                return
            _, messages = open_entry(entry)
        except ProtocolViolation as error:
            at = _place(part.name, position)
            _log.error("entry is not an event", at=at, reason=error.sentence)
            return
        for message in messages:
            single = message.metadata
            if not single.compacted_out and single.HasField("partition_key"):
                value = b"" if single.null_value else message.payload
                await self._apply_message(part, position, metadata, single.partition_key, value)

    async def _apply_message(
        self, part: _Part, position: Position, metadata: MessageMetadata, key: str, value: bytes
    ) -> None:
        version = metadata.schema_version
        definition = self._definitions.get((part.name, version))
        if definition is None:
            definition = await self._find_definition(part.name, version)
        self._apply(_Kept(key, value, definition, part.name, position), key)

    def _apply(self, kept: _Kept, key: str) -> None:
        try:
            if not kept.is_plain() and not self._replaces(kept, key):
                return
        except InvalidName as error:
            _log.error("event of a topic that cannot be", key=key, reason=error.sentence)
            return
        except RecordUnreadable as error:  # whoever asks for this topic is told
            _log.error("event cannot be read", reason=error.sentence)
        self._kept[key] = kept
        if self._ready.done():
            self._tell(key, kept)

    def _replaces(self, kept: _Kept, key: str) -> bool:
        event = kept.event()
        if event is None:
            return False
        if event.action is Action.DELETE:
            if self._kept.pop(key, None) is not None and self._ready.done():
                self._told(event)
            return False
        return event.action is not Action.INSERT or key not in self._kept

    def _tell(self, key: str, kept: _Kept) -> None:
        try:
            event = kept.event()
        except (RecordUnreadable, InvalidName) as error:
            _log.error("policies stay as they were", key=key, reason=error.sentence)
            return
        if event is not None:
            self._told(event)

    async def _find_definition(self, topic: TopicName, version: bytes) -> bytes:
        """The schema an event was written with; today's when it does not say."""
        definition = EVENT_SCHEMA.definition
        if len(version) == 8:
            stored = await self._service.schemas.get(topic, int.from_bytes(version, "big"))
            if stored is not None and stored.schema.definition != definition:
                definition = stored.schema.definition
        self._definitions[topic, version] = definition
        return definition

    # ------------------------------------------------------------------ asking and writing

    @property
    def is_ready(self) -> bool:
        """Whether everything that was there has been read."""
        return self._ready.done()

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait, within the time given, until everything that was written before has been read."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise PoliciesUnavailable(
                f"{self._name()} was not read within {timeout_s:g} s"
            ) from None

    def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        """Raise RecordUnreadable when the topic's last event is not one."""
        kept = self._kept.get(encode_event_key(topic, is_global=is_global))
        event = None if kept is None else kept.event()
        return None if event is None else event.policies

    def has(self, topic: TopicName, *, is_global: bool) -> bool:
        """Whether there is anything in this scope, readable or not."""
        return encode_event_key(topic, is_global=is_global) in self._kept

    async def write(
        self,
        topic: TopicName,
        policies: TopicPolicies | None,
        *,
        is_global: bool,
        sequence: int,
        timeout_s: float,
    ) -> None:
        """Append an event and wait until this reader has passed it; None says they are gone."""
        key = encode_event_key(topic, is_global=is_global)
        part = self._parts[java_hash31(key) % len(self._parts)]
        service = self._service
        live = await service.load_topic(part.name, create=True)
        assert isinstance(live, PersistentTopic), "the domain says so"
        version = await service.schemas.put_if_absent(
            part.name, EVENT_SCHEMA, live.policy.schema_compatibility
        )
        metadata = MessageMetadata(
            producer_name=f"{service.cluster}-{service.owner.term}-topic-policies",
            sequence_id=sequence,
            publish_time=service.clock.now_ms(),
            partition_key=key,
            schema_version=version.to_bytes(8, "big"),
        )
        payload = b""
        if policies is None:
            metadata.null_value = True
        else:
            payload = encode_event(topic, policies, cluster=service.cluster)
        if not is_global:
            metadata.replicate_to.append(service.cluster)
        position = await append_entry(live.chain, encode_entry(metadata, payload))
        live.last_active_ms = service.clock.now_ms()
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, position, passed))
        self._release(part)  # the reader may have been quicker
        try:
            async with asyncio.timeout(timeout_s):
                await passed
        except TimeoutError:
            raise PoliciesUnavailable(
                f"{self._name()} took the change but was not read up to it within {timeout_s:g} s"
            ) from None
