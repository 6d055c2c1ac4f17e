"""A producer attached to a topic, and the order in which its receipts leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from magnetar.errors import BrokerError, ProtocolViolation, fault_of
from magnetar.runtime.rate import Rate
from magnetar.wire.command import encode_command, send_error
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


class PendingRun:
    """A run on its way to the disk, or already answered but queued behind one that is."""

    __slots__ = ("reply", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.reply: bytes | None = None


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
    _pending: deque[PendingRun] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def publish(self, run: SendRun) -> None:
        if not self.is_ready:
            raise ProtocolViolation(f"a SEND of producer {self.id}, which waits for its turn")
        self.topic.publish(self, run)

    # One receipt per SEND, in the order of the SENDs: a client closes the connection on any other
    # order.

    def expect(self, size: int) -> PendingRun:
        """Note that a run of `size` bytes is on its way."""
        pending = PendingRun(size)
        self._pending.append(pending)
        self.connection.add_unsynced(size)
        return pending

    def answer(self, pending: PendingRun, reply: bytes) -> None:
        """Give the receipts of a run; they leave once everything before them has left."""
        pending.reply = reply
        waiting = self._pending
        while waiting:
            ready = waiting[0].reply
            if ready is None:
                return
            self.connection.remove_unsynced(waiting.popleft().size)
            if ready:
                self.connection.send(ready)
        self.topic.on_producer_idle(self)

    def refuse(self, run: SendRun, refusal: BrokerError, pending: PendingRun | None = None) -> None:
        """Answer every SEND of a run with the same error."""
        code = fault_of(refusal).code
        reply = b"".join(
            encode_command(send_error(self.id, max(sequence, highest), code, refusal.sentence))
            for sequence, highest in zip(run.sequences, run.highests, strict=True)
        )
        self.answer(pending or self.expect(0), reply)

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
