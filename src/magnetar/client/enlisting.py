"""What producers and consumers ask of a transaction, whichever face of the client made it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from magnetar.client.error import ConfigurationError
from magnetar.model.name import TopicName
from magnetar.model.transaction import TransactionId


class Enlisting(Protocol):
    """A transaction, seen by what takes part in it."""

    @property
    def id(self) -> TransactionId: ...

    def follow(self, client: object, operation: asyncio.Future[Any]) -> None:
        """Let the commit wait for it; raise unless the transaction is open, and of this client."""

    def enlist_topic(self, topic: TopicName) -> asyncio.Future[None] | None:
        """To be awaited before the first message to a topic; None once that is done."""

    def enlist_subscription(
        self, topic: TopicName, subscription: str
    ) -> asyncio.Future[None] | None:
        """To be awaited before the first acknowledgement on a subscription."""

    def when_undone(self, call: Callable[[], None]) -> None:
        """Call it if the transaction ends in any other way than by its commit."""


class TransactionHandle(ABC):
    """What `transaction=` takes: a transaction of the asyncio client, or of the blocking one."""

    @property
    @abstractmethod
    def enlisting(self) -> Enlisting: ...


def find_enlisting(given: object) -> Enlisting | None:
    if given is None:
        return None
    if not isinstance(given, TransactionHandle):
        raise ConfigurationError(f"transaction is what client.transaction() makes, not {given!r}")
    return given.enlisting
