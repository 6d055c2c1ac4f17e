"""A producer attached to a topic, and the order in which its receipts leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from magnetar.errors import BrokerError, fault_of
from magnetar.runtime.rate import Rate
from magnetar.wire.command import encode_command, send_error
from magnetar.wire.receipt import ReceiptWriter
from magnetar.wire.run import SendRun

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.topic import Topic


class AccessMode(IntEnum):
    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3

    @property
    def label(self) -> str:
        """The spelling of the stats."""
        return "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(eq=False, slots=True)
class Producer:
    topic: Topic
    connection: Connection
    id: int
    name: str
    epoch: int
    access_mode: AccessMode
    user_provided_name: bool
    encrypted: bool
    schema_version: bytes
    metadata: Mapping[str, str]
    connected_since_ms: int
    rate: Rate
    chunk_rate: Rate
    topic_epoch: int | None = None
    is_ready: bool = False
    """Whether it has its turn: one that waits to be the only producer has not."""
    closed: bool = False
    failed: bool = False
    receipts: ReceiptWriter = field(init=False)
    _pending: deque[SendRun] = field(default_factory=deque)
    """Runs on their way to the disk, or already answered but queued behind one that is."""

    def __post_init__(self) -> None:
        self.receipts = ReceiptWriter(self.id)

    @property
    def is_idle(self) -> bool:
        return not self._pending

    @property
    def last_run(self) -> SendRun | None:
        """What was sent last, if it is not answered."""
        return self._pending[-1] if self._pending else None

    # One receipt per SEND, in the order of the SENDs: a client closes the connection on any other
    # order.

    def expect(self, run: SendRun, size: int) -> None:
        """Note that a run is on its way, with so many bytes."""
        run.size, run.reply = size, None
        self._pending.append(run)
        self.connection.unsynced_bytes += size

    def expect_more(self, run: SendRun, more: SendRun, size: int) -> None:
        """Note that more goes the way of a run that waits."""
        run.join(more)
        run.size += size
        self.connection.unsynced_bytes += size

    def answer(self, run: SendRun, reply: bytes) -> None:
        """Give the receipts of a run; they leave once everything before them has left."""
        run.reply = reply
        waiting, connection = self._pending, self.connection
        while waiting:
            first = waiting[0]
            if first.reply is None:
                return
            waiting.popleft()
            connection.unsynced_bytes -= first.size
            if connection.is_held_back:
                connection.let_go()
            if first.reply:
                connection.send(first.reply)
        self.topic.on_producer_idle(self)

    def answer_at_once(self, run: SendRun, reply: bytes) -> None:
        """Nothing of it is on its way; earlier runs may be."""
        self.expect(run, 0)
        self.answer(run, reply)

    def refuse(self, run: SendRun, refusal: BrokerError, *, is_expected: bool = False) -> None:
        """Answer every SEND of a run with the same error."""
        code = fault_of(refusal).code
        reply = b"".join(
            encode_command(send_error(self.id, max(sequence, highest), code, refusal.sentence))
            for sequence, highest in zip(run.sequences, run.highests, strict=True)
        )
        if is_expected:
            self.answer(run, reply)
        else:
            self.answer_at_once(run, reply)

    def fail(self) -> None:
        """A write failed. Nothing more is taken, so that the client sends everything again from
        there, in order, once all it sent is answered.
        """
        self.failed = True
        if self.is_idle:
            self.disconnect()

    def disconnect(self) -> None:
        """The broker's wish: the client is told and reconnects."""
        if not self.closed:
            self.closed = True
            if self.connection.producers.get(self.id) is self:  # not left, and the id used again
                self.connection.close_producer(self.id)
            self.topic.remove_producer(self)

    def detach(self) -> None:
        """The client left, or its connection did."""
        if not self.closed:
            self.closed = True
            self.topic.remove_producer(self)
