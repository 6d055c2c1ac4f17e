"""A producer attached to a topic, and the order in which its receipts leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from magnetar.broker.peer import Peer
from magnetar.errors import BrokerError, TopicTerminated, fault_of
from magnetar.ledger.log import Log
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.model.scalable import BrokerAddress
from magnetar.runtime.log import Logger, PacedLog
from magnetar.runtime.rate import Rate
from magnetar.wire.command import encode_command, send_error
from magnetar.wire.receipt import ReceiptWriter
from magnetar.wire.run import SendRun

_paced_log = PacedLog(Logger(__name__))


class AccessMode(IntEnum):
    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3

    @property
    def label(self) -> str:
        """The spelling of the stats."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ProducerConnection(Peer, Protocol):
    """The connection that a producer came over."""

    @property
    def closed(self) -> bool: ...

    def send(self, data: bytes) -> None: ...

    def count_unsynced(self, size: int) -> None:
        """More (or less) is on its way to the disk."""

    def pause(self, reason: str) -> bool:
        """Stop reading from the client until resumed; return whether the reason is new."""

    def resume(self, reason: str) -> None: ...

    def close_producer(self, producer: Producer) -> None:
        """Tell the client to reconnect, unless the producer has left."""


class SequenceRecord(Protocol):
    """Keeps which messages of each producer name are durable."""

    def on_persisted(self, producer_name: str, run: SendRun, last: Position) -> None: ...
    def on_failed(self, producer_name: str) -> None: ...


class PublishedTopic(Protocol):
    """The topic that a producer is attached to."""

    @property
    def name(self) -> TopicName: ...

    @property
    def log(self) -> Log | None: ...

    @property
    def dedup(self) -> SequenceRecord | None: ...

    @property
    def moved_to(self) -> BrokerAddress | None:
        """Where a topic that is closed is served next, if that is known."""

    def publish(self, producer: Producer, run: SendRun) -> None: ...
    def last_sequence(self, producer_name: str) -> int: ...
    def on_producer_idle(self, producer: Producer) -> None: ...
    def remove_producer(self, producer: Producer) -> None: ...


class _Reply:
    """An answer in the queue of the log: there is nothing to store."""

    __slots__ = ("_data", "_send")
    entries: tuple[bytes, ...] = ()
    counts: tuple[int, ...] = ()
    size = 0

    def __init__(self, send: Callable[[bytes], None], data: bytes) -> None:
        self._send = send
        self._data = data

    def on_durable(self, first: Position) -> None:
        self._send(self._data)

    def on_refused(self, error: BrokerError) -> None:
        self._send(self._data)


@dataclass(eq=False, slots=True)
class Producer:
    topic: Final[PublishedTopic]
    connection: Final[ProducerConnection]
    id: Final[int]
    name: Final[str]
    epoch: int
    access_mode: Final[AccessMode]
    user_provided_name: Final[bool]
    encrypted: Final[bool]
    schema_version: Final[bytes]
    metadata: Final[Mapping[str, str]]
    connected_since_ms: Final[int]
    rate: Final[Rate]
    chunk_rate: Final[Rate]
    topic_epoch: int | None = None
    is_ready: bool = False
    """Whether it has its turn: one that waits to be the only producer has not."""
    closed: bool = False
    failed: bool = False
    receipts: ReceiptWriter = field(init=False)
    _pending: int = 0
    """Answers that stand in the queue of the log."""
    _answered: asyncio.Future[None] | None = None
    """Done when there are none, for the caller that waits for it."""

    def __post_init__(self) -> None:
        self.receipts = ReceiptWriter(self.id)

    @property
    def is_idle(self) -> bool:
        """Whether everything it sent is answered."""
        return not self._pending

    async def wait_idle(self) -> None:
        if self._pending:
            self._answered = asyncio.get_running_loop().create_future()
            await self._answered

    # One receipt per SEND, in the order of the SENDs: a client closes the connection on any other
    # order. The log answers in order, so an answer that is known at once goes through its queue.

    def append(self, run: SendRun, log: Log) -> None:
        """Store a run; it is answered when it is durable."""
        run.reply_to = self
        self._pending += 1
        self.connection.count_unsynced(run.size)
        log.flights.append(run)

    def on_durable(self, run: SendRun, first: Position) -> None:
        dedup = self.topic.dedup
        if dedup is not None:
            last = Position(first.ledger_id, first.entry_id + len(run) - 1)
            dedup.on_persisted(self.name, run, last)
        self.connection.count_unsynced(-run.size)
        self._on_answer(self.receipts.encode(run.sequences, run.highests, *first))

    def on_refused(self, run: SendRun, error: BrokerError) -> None:
        if self.topic.dedup is not None:
            self.topic.dedup.on_failed(self.name)
        _paced_log.warning("publish failed", topic=self.topic.name.full, reason=error.sentence)
        self.connection.count_unsynced(-run.size)
        self._on_answer(self._encode_refusal(run, error))
        if not isinstance(error, TopicTerminated):
            self.fail()

    def answer_at_once(self, reply: bytes) -> None:
        """Answer what is not stored, behind what is on its way."""
        self._pending += 1
        if self._pending == 1:
            self._on_answer(reply)
        else:
            assert self.topic.log is not None, "the others are on their way to it"
            self.topic.log.flights.follow(_Reply(self._on_answer, reply))

    def refuse(self, run: SendRun, refusal: BrokerError) -> None:
        """Answer every SEND of a run that is not stored with the same error."""
        self.answer_at_once(self._encode_refusal(run, refusal))

    def _encode_refusal(self, run: SendRun, refusal: BrokerError) -> bytes:
        code = fault_of(refusal).code
        return b"".join(
            encode_command(send_error(self.id, max(sequence, highest), code, refusal.sentence))
            for sequence, highest in zip(run.sequences, run.highests, strict=True)
        )

    def _on_answer(self, reply: bytes) -> None:
        self.connection.send(reply)
        self._pending -= 1
        if not self._pending:
            if self._answered is not None and not self._answered.done():
                self._answered.set_result(None)
            self.topic.on_producer_idle(self)
            if self.failed:
                self.disconnect()

    def fail(self) -> None:
        """A write failed. Nothing more is taken, so that the client sends everything again from
        there, in order, once all it sent is answered.
        """
        self.failed = True
        if self.is_idle:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the producer; its client reconnects."""
        if not self.closed:
            self.closed = True
            self.connection.close_producer(self)
            self.topic.remove_producer(self)

    def detach(self) -> None:
        """The client left, or its connection did."""
        if not self.closed:
            self.closed = True
            self.topic.remove_producer(self)
