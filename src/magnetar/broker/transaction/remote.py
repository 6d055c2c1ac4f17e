"""Transactions over several brokers: what one asks another, by the topic that it owns.

A coordinator reaches a topic where that is served. A coordinator is reached at the owner of its
assign partition. Every call may be repeated, at the owner there is then.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.model.transaction import TransactionId


class TransactionTopic(Protocol):
    """A topic that takes part in transactions, at its owner."""

    async def join(
        self,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: tuple[str, ...] | None = None,
        owner: str = "",
    ) -> None:
        """A transaction of the owner's is about to acknowledge on these subscriptions; None: to
        write.
        """

    async def end(self, id_: TransactionId, is_commit: bool) -> None:
        """Returns when the outcome is durable there."""


class Coordination(Protocol):
    """One coordinator, at its owner: for topics that lost sight of a transaction, and for clients
    that reach another broker.
    """

    async def begin(self, role: str, timeout_ms: int) -> TransactionId:
        """One that is begun twice, because an answer was lost, is ended by its time-out."""

    async def join(
        self,
        id_: TransactionId,
        role: str,
        is_super_user: bool,
        topics: tuple[str, ...] = (),
        subscriptions: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Topics to write to, and subscriptions to acknowledge on."""

    async def end(
        self, id_: TransactionId, role: str, is_super_user: bool, is_commit: bool
    ) -> None: ...

    async def find(self, id_: TransactionId, topic: str) -> bool | None:
        """Whether a transaction is to be committed on a topic, or, when it is not known as one
        that spans the topic, was; None: its coordinator will tell the topic.
        """
