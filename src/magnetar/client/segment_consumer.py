"""The consumer of one segment, which has an end once the segment is sealed."""

from __future__ import annotations

from magnetar.client.connection import Connection
from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.subscription import Floor
from magnetar.client.topic_consumer import TopicConsumer, ask_last
from magnetar.wire.command import position_of


class SegmentConsumer(TopicConsumer):
    """Knows where it stands in the segment, and whether that is its end."""

    @property
    def is_emptied(self) -> bool:
        """Whether the application has got everything there will ever be."""
        return self.has_reached_end and self._untaken == 0 and not len(self._intake)

    @property
    def place(self) -> MessageId | None:
        """After which message a reader reads on; None while that is "earliest" or "latest"."""
        floor = self._reader.floor
        if floor is None or floor.id in (EARLIEST_ID, LATEST_ID) or floor.is_included:
            return None
        return floor.id

    async def seek_time(self, publish_time_ms: int) -> None:
        """Move a reader, and learn where to: after a loss it starts there again."""
        await self.seek(publish_time_ms)
        place = await self._find_place()
        if place is not None and self.place is None:
            self._reader.move(Floor(place, is_included=False))

    async def attach(self, connection: Connection) -> None:
        self.has_reached_end = (
            False  # delivery starts over, and the broker reports its end once more
        )
        await super().attach(connection)

    async def _find_place(self) -> MessageId | None:
        """The broker's word on it, before anything was acknowledged."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        answer = await ask_last(connection, self._id, timeout)
        if not answer.HasField("consumer_mark_delete_position"):
            return None
        return MessageId(*position_of(answer.consumer_mark_delete_position))


def covers(place: MessageId | None, last: MessageId) -> bool:
    """Whether a reader that stands after `place` has nothing to read up to `last`."""
    return place is not None and (place == LATEST_ID or not Floor(place, False).wants(last))
