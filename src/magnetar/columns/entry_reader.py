"""Reading stored entries as they are, in bulk: for callers that decode them by columns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from magnetar.client.attachment import Permits
from magnetar.client.connection import Connection
from magnetar.client.consumer_set import SegmentConsumer
from magnetar.client.delivery import count_permits
from magnetar.client.error import PulsarError, PulsarTimeoutError
from magnetar.client.message_id import EARLIEST_ID, MessageId
from magnetar.client.progress import Floor
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.wire.command import CommandFlow, CommandMessage, position_of

_FIRST_PERMITS: Final = 64
"""How many messages are asked for before their size is known."""
_PERMITS_MAX: Final = 200_000


class StoredEntry(NamedTuple):
    ledger: int
    entry: int
    data: bytes


class _WindowPermits(Permits):
    """What a reader of entries asks for depends on bytes, not on what was taken or dropped."""

    def add(self, count: int) -> None: ...


class AsyncEntryReader(SegmentConsumer):
    """Made by `AsyncBulk.entry_reader`: a reader of one topic, partition or segment.

    Entries come in order, each once, over any loss of the connection. As many messages are asked
    for as fit the window by the mean size of those that came.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        *,
        name: str,
        start: MessageId,
        window_bytes: int,
        properties: Mapping[str, str],
    ) -> None:
        settings = ConsumerSettings(
            subscription=name,
            start=Floor(start, is_included=True),
            receiver_queue_size=_FIRST_PERMITS,
            create_topic=False,
            properties=properties,
        )
        super().__init__(session, topic, settings, outlet=None)
        self._permits = _WindowPermits(self._attachment, self._id, settings.receiver_queue_size)
        self._window_bytes = window_bytes
        self._queue: list[StoredEntry] = []
        self._came = asyncio.Event()
        self._failure: PulsarError | None = None
        self._newest: Position | None = None
        self._outstanding = 0
        self._queued_messages = 0
        self._messages = 0
        self._bytes = 0

    async def open(self) -> None:
        await super().open()
        self._session.made[self] = None

    async def take(self, timeout: float) -> list[StoredEntry]:
        """All that came since the last time, at least one; raises PulsarTimeoutError instead."""
        try:
            async with self._session.clock.timeout(timeout):
                while not self._queue:
                    if self._failure is not None:
                        raise self._failure
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise PulsarTimeoutError(f"Nothing came of {self.topic} in {timeout:g} s") from None
        taken, self._queue = self._queue, []
        self._queued_messages = 0
        self._grant()
        return taken

    async def find_time(self, publish_time_ms: int) -> MessageId:
        """The last message before those published at that time or later."""
        await self.seek_time(publish_time_ms)
        return self.place or EARLIEST_ID

    async def close(self) -> None:
        self._session.made.pop(self, None)
        await super().close()

    def on_message(self, command: CommandMessage, entry: bytes) -> None:
        position = position_of(command.message_id)
        permits = count_permits(command, entry)
        self._outstanding -= permits
        if self._newest is not None and position <= self._newest:
            return  # came before the connection was lost, and once more after
        self._newest = position
        self._reader.move(Floor(MessageId(*position), is_included=False))
        self._messages += permits
        self._bytes += len(entry)
        self._queued_messages += permits
        self._queue.append(StoredEntry(*position, entry))
        self._came.set()

    async def attach(self, connection: Connection) -> None:
        await super().attach(connection)
        self._outstanding = 0 if self._permits.is_paused else _FIRST_PERMITS
        self._grant()

    def finish(self, failure: PulsarError) -> None:
        super().finish(failure)
        self._failure = failure
        self._came.set()

    def _grant(self) -> None:
        """Ask for more when a quarter of the window is free."""
        mean = self._bytes / self._messages if self._messages else self._window_bytes
        window = max(1, min(_PERMITS_MAX, int(self._window_bytes / max(1.0, mean))))
        missing = window - self._outstanding - self._queued_messages
        connection = self._attachment.connection
        if connection is not None and self._messages and missing * 4 >= window:
            connection.send_body(CommandFlow(consumer_id=self._id, messagePermits=missing))
            self._outstanding += missing
