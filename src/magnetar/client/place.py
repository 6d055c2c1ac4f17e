"""What an application says is done, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from magnetar.client.error import ConfigurationError
from magnetar.client.message import Message
from magnetar.client.message_id import NO_SEGMENT, MessageId
from magnetar.model.segment import SegmentId

T = TypeVar("T")

Done: TypeAlias = Message[T] | MessageId | Iterable[Message[T] | MessageId]
"""What may be acknowledged at once: a message, or several."""


Place: TypeAlias = tuple[str | None, SegmentId, MessageId]
"""The topic, where ids tell it, the segment, and what to acknowledge there."""


def places_of(done: Done[T]) -> list[Place]:
    if isinstance(done, (Message, MessageId)):
        return [place_of(done)]
    if isinstance(done, Iterable) and not isinstance(done, str | bytes):
        return [place_of(each) for each in done]
    raise ConfigurationError(f"{done!r} is neither a message nor the id of one, nor several")


def place_of(message: Message[T] | MessageId) -> Place:
    if isinstance(message, Message):
        place = message.place
        return place.topic, message.segment_id, place
    id = id_of(message)
    number = id.segment_id if id.segment_id != NO_SEGMENT else SegmentId(max(0, id.partition))
    return id.topic, number, id


def id_of(message: Message[T] | MessageId) -> MessageId:
    id = message.id if isinstance(message, Message) else message
    if not isinstance(id, MessageId):
        raise ConfigurationError(f"{id!r} is neither a message nor the id of one")
    return id
