"""Receiving Arrow batches instead of messages."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from magnetar.client.delivery import RawEntry
from magnetar.client.error import ConfigurationError
from magnetar.client.inbox import Inbox, Receiver
from magnetar.client.quantity import Duration
from magnetar.client.retry import find_deadline
from magnetar.client.topic_consumer import TopicConsumer

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnReading(Protocol):
    """Entries on their way into one batch."""

    @property
    def rows(self) -> int: ...

    def add(self, raw: RawEntry) -> None: ...

    def take(self) -> pa.RecordBatch: ...


T = TypeVar("T")


class ArrowReceiver(Receiver[T], Generic[T]):
    """Gives messages, or with `columns` batches of them."""

    def __init__(self, inbox: Inbox, columns: Sequence[str]) -> None:
        super().__init__(inbox)
        self._columns: ColumnReading | None = None
        if columns:
            try:
                reading = importlib.import_module("magnetar.columns.reading")
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f"columns need {error.name}: pip install 'magnetar[spark]'"
                ) from None
            self._columns = reading.ColumnReading(columns)

    async def receive_arrow(
        self, max_rows: int = 10_000, timeout: Duration | None = None
    ) -> pa.RecordBatch:
        """What is here as soon as there is something, as an Arrow batch of the chosen `columns`.

        It ends with the entry that makes it `max_rows` or more, and is empty after `timeout`.
        """
        columns = self._columns
        if columns is None:
            raise ConfigurationError("receive_arrow needs columns=[...] when the reader is made")
        deadline = find_deadline(timeout, self._inbox.clock)
        while True:
            while columns.rows < max_rows and (found := self._inbox.take_raw()) is not None:
                if self._take_raw(*found):
                    columns.add(found[1])
            if columns.rows or not await self._inbox.wait(deadline):
                self._inbox.received += columns.rows
                return columns.take()

    @abstractmethod
    def _take_raw(self, part: TopicConsumer, raw: RawEntry) -> bool:
        """The application gets the entry; False for one that is void."""

    def _check_messages(self) -> None:
        if self._columns is not None:
            raise ConfigurationError("A reader of columns has no messages; use receive_arrow")
