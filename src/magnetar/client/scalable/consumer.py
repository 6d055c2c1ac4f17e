"""What consumers with a subscription share, on one topic, on several or on a namespace."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from magnetar.client.error import AlreadyClosedError, ConfigurationError
from magnetar.client.message_id import EARLIEST, LATEST
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.scalable.inbox import Inbox, Receiver
from magnetar.client.scalable.message import Message
from magnetar.client.scalable.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.scalable.moment import to_ms
from magnetar.client.scalable.topic_set import Member, TopicSet
from magnetar.client.session import Session
from magnetar.client.stats import ConsumerStats
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.topic_consumer import TopicConsumer

T = TypeVar("T")
M = TypeVar("M", bound=Member)


class SubscriptionConsumer(Receiver[T], Generic[T, M]):
    def __init__(
        self, session: Session, settings: ConsumerSettings, inbox: Inbox[T], topic_set: TopicSet[M]
    ) -> None:
        super().__init__(inbox)
        self._session = session
        self._settings = settings
        self._topic_set = topic_set
        self._acknowledged = self._refused = 0

    @property
    def topic(self) -> str:
        """The topic; `namespace://` and its name for a consumer of a namespace."""
        return self._topic_set.title

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topic_set.topics

    @property
    def subscription(self) -> str:
        return self._settings.subscription

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def stats(self) -> ConsumerStats:
        segments = {
            each.topic: tuple(sorted(each.consumers.parts)) for each in self._topic_set.members
        }
        return ConsumerStats(
            self._received, self._acknowledged, self._refused, len(self._inbox), segments
        )

    async def open(self) -> None:
        await self._topic_set.open()
        self._session.made[self] = None

    def pause(self) -> None:
        """Ask for no more messages; those that were asked for still come."""
        for member in self._topic_set.members:
            member.consumers.pause()

    def resume(self) -> None:
        for member in self._topic_set.members:
            member.consumers.resume()

    async def seek(self, target: datetime | MessageId) -> None:
        """Move the subscription to a time, or to `EARLIEST_ID` or `LATEST_ID`, in all segments.

        Raises ConsumerBusyError while other consumers of a stream hold some of them.
        """
        place: EntryId | int
        if isinstance(target, datetime):
            place = to_ms("target", target)
        elif target == EARLIEST_ID:
            place = EARLIEST
        elif target == LATEST_ID:
            place = LATEST
        else:
            raise ConfigurationError(
                "A subscription moves to a datetime, EARLIEST_ID or LATEST_ID; the id of one"
                " message says nothing about other segments"
            )

        async def move(part: TopicConsumer, is_guest: bool) -> None:
            self._inbox.drop(part)
            await part.seek(place, is_leaving=is_guest)

        self._forget_ends()
        for member in self._topic_set.members:
            await member.consumers.visit(member.reads(), move)
        self._forget_positions()

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription in all segments, and close.

        Raises ConsumerBusyError while it has other consumers; with `force` a queue's are sent away.
        """

        async def leave(part: TopicConsumer, is_guest: bool) -> None:
            await part.unsubscribe(force=force)

        for member in self._topic_set.members:
            await member.consumers.visit(member.reads(), leave)
        await self.close()

    async def close(self) -> None:
        """Send what is acknowledged and leave; unacknowledged messages go to other consumers."""
        if isinstance(self._inbox.failure, AlreadyClosedError):
            return
        self._inbox.close(AlreadyClosedError(f"The consumer of {self.subscription} is closed"))
        self._session.made.pop(self, None)
        await self._topic_set.close()

    def _forget_ends(self) -> None:
        """Segments that were read to their end may be read again."""

    def _forget_positions(self) -> None:
        """Delivery starts elsewhere."""


def id_of(message: Message[T] | MessageId) -> MessageId:
    id = message.id if isinstance(message, Message) else message
    if not isinstance(id, MessageId):
        raise ConfigurationError(f"{id!r} is neither a message nor the id of one")
    return id
