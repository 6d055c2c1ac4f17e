"""A reader of one segment: from a place of its own to the end that a sealed segment has."""

from __future__ import annotations

from collections.abc import Callable

from magnetar.client.connection import Type
from magnetar.client.message_id import EARLIEST, LATEST
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, Floor
from magnetar.client.topic_consumer import Deliver, GiveUp, TopicConsumer
from magnetar.model.name import TopicName
from magnetar.wire.command import CommandGetLastMessageId, position_of


class SegmentReader(TopicConsumer):
    """`on_end` hears that a sealed segment is read to its end."""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        *,
        origin: int,
        deliver: Deliver,
        give_up: GiveUp,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(session, topic, settings, origin=origin, deliver=deliver, give_up=give_up)
        self._on_end = on_end

    def on_end_of_topic(self) -> None:
        super().on_end_of_topic()
        self._on_end()

    @property
    def place(self) -> EntryId | None:
        """After which message it reads on; None while that is "earliest" or "latest"."""
        floor = self._floor
        if floor is None or floor.id in (EARLIEST, LATEST) or floor.is_included:
            return None
        return floor.id

    async def find_place(self) -> EntryId | None:
        """The broker's word on it, before anything was acknowledged."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        answer = await connection.request(
            CommandGetLastMessageId(consumer_id=self._id),
            Type.GET_LAST_MESSAGE_ID_RESPONSE,
            timeout=timeout,
        )
        if not answer.HasField("consumer_mark_delete_position"):
            return None
        return EntryId(*position_of(answer.consumer_mark_delete_position))


def covers(place: EntryId | None, last: EntryId) -> bool:
    """Whether a reader that stands after `place` has nothing to read up to `last`."""
    return place is not None and (place == LATEST or not Floor(place, False).wants(last))
