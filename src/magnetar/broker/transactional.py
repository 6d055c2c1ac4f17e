"""What a topic needs of the transactions that span it; the room that keeps them implements it."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.consumer import Consumer
from magnetar.broker.producer import Producer
from magnetar.errors import BrokerError
from magnetar.ledger.cursor import Cursor
from magnetar.wire.command import CommandAck
from magnetar.wire.run import SendRun


class TopicTransactions(Protocol):
    def prepare(self, run: SendRun) -> BrokerError | None:
        """Let messages tell by themselves to which transaction they belong, or say why they are
        not taken.
        """

    def append(self, producer: Producer, run: SendRun) -> None:
        """Store messages of a transaction that were prepared."""

    def acknowledge(self, subscription: str, consumer: Consumer, ack: CommandAck) -> None:
        """Acknowledge as part of a transaction; the client is answered when that is durable."""

    def skip_aborted(self, cursor: Cursor) -> None:
        """Count entries of aborted transactions as acknowledged: a cursor was made or moved."""

    async def drop_subscription(self, name: str) -> None:
        """Its cursor is deleted: nothing that transactions acknowledge there counts any more."""

    async def close(self) -> None: ...

    async def delete(self) -> None: ...
