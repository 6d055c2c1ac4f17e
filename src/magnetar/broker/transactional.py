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
    def refusal_of(self, run: SendRun) -> BrokerError | None:
        """Why a message of a transaction is not taken."""

    def append(self, producer: Producer, run: SendRun) -> None:
        """Store a message of a transaction that was not refused."""

    def acknowledge(self, subscription: str, consumer: Consumer, ack: CommandAck) -> None:
        """Acknowledge as part of a transaction; the client is answered when that is durable."""

    def skip_aborted(self, cursor: Cursor) -> None:
        """Count entries of aborted transactions as acknowledged: a cursor was made or moved."""

    async def close(self) -> None: ...

    async def delete(self) -> None: ...
