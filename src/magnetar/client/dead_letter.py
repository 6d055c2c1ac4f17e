"""Messages that were delivered too often: published elsewhere, then acknowledged.

And those put aside before: they go to a retry topic with a delay, and are redelivered from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from magnetar.client.error import PulsarError
from magnetar.client.policy import DeadLetterPolicy
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

if TYPE_CHECKING:
    from magnetar.client.message import Message
    from magnetar.client.message_id import MessageId
    from magnetar.client.publication import SendOptions

_log = Logger(__name__)

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"


class LetterProducer(Protocol):
    """A producer of bytes."""

    async def send(self, value: bytes | None, **options: Unpack[SendOptions]) -> Any: ...

    async def close(self) -> None: ...


class Receipts(Protocol):
    """What waits for the broker's word on acknowledgements, where they have receipts."""

    async def confirm(self) -> None: ...


class Source(Protocol):
    """The part of a consumer that a message came through."""

    def acknowledge(self, id: MessageId) -> None: ...

    @property
    def acknowledger(self) -> Receipts: ...

    def negative_acknowledge(self, id: MessageId, delay: float | None) -> None: ...


OpenLetterProducer = Callable[[str, str | None], Awaitable[LetterProducer]]
"""Given the name of a topic, and of a subscription to make there first."""


class DeadLetters:
    """One for a consumer. Its producer is opened with the first message; a failure is no memory."""

    def __init__(
        self,
        policy: DeadLetterPolicy,
        subscription: str,
        *,
        scope: TaskScope,
        open_letter_producer: Callable[[], Awaitable[LetterProducer]],
    ) -> None:
        self._policy = policy
        self._subscription = subscription
        self._scope = scope
        self._open_letter_producer = open_letter_producer
        self._producer: LetterProducer | None = None
        self._is_closed = False

    def claims(self, message: Message[Any]) -> bool:
        """Whether the application had its chances."""
        return message.redelivery_count > self._policy.max_redeliveries

    def take(self, message: Message[Any], source: Source) -> None:
        """Publish on the side and acknowledge; one that was not stored is redelivered."""
        self._scope.start(self._bury(message, source), f"dead letter {message.place}")

    async def close(self) -> None:
        self._is_closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()

    async def _bury(self, message: Message[Any], source: Source) -> None:
        try:
            producer = await self._get_producer()
            await producer.send(message.data, **self.describe(message))
            source.acknowledge(message.place)
            await source.acknowledger.confirm()
        except PulsarError as error:
            if not self._is_closed:
                _log.warning("dead letter not sent", error=error, topic=message.topic)
                source.negative_acknowledge(message.place, None)

    def describe(self, message: Message[Any]) -> SendOptions:
        """Everything the message had, and where it came from."""
        origin = {
            REAL_TOPIC: message.topic,
            REAL_SUBSCRIPTION: self._subscription,
            ORIGIN_MESSAGE_ID: message.place.text,
        }
        return copy_options(message, origin)

    async def _get_producer(self) -> LetterProducer:
        if self._producer is None:
            opened = await self._open_letter_producer()
            if self._producer is None and not self._is_closed:
                self._producer = opened
            else:  # another message was faster, or the consumer left meanwhile
                await opened.close()
        if self._producer is None:
            raise PulsarError("The consumer is closed")
        return self._producer


class RetryLetters:
    """One for a consumer; the count of attempts travels with the message, as a property."""

    def __init__(
        self,
        subscription: str,
        *,
        retry_topic: str,
        dead_letter_topic: str,
        policy: DeadLetterPolicy,
        open_letter_producer: OpenLetterProducer,
    ) -> None:
        self._subscription = subscription
        self._retry_topic = retry_topic
        self._dead_letter_topic = dead_letter_topic
        self._policy = policy
        self._open_letter_producer = open_letter_producer
        self._producers: dict[str, LetterProducer] = {}

    async def put_aside(self, message: Message[Any], delay: float) -> None:
        """Returns once the copy is stored; the caller acknowledges the original then."""
        attempts = _count(message) + 1
        origin = {
            REAL_TOPIC: message.topic,
            REAL_SUBSCRIPTION: self._subscription,
            ORIGIN_MESSAGE_ID: message.place.text,
        }
        options = copy_options(message, origin)
        counted = {RECONSUME_TIMES: str(attempts)}
        target, initial = self._dead_letter_topic, self._policy.initial_subscription
        if attempts <= self._policy.max_redeliveries:
            target, initial = self._retry_topic, None
            counted[DELAY_TIME] = str(int(delay * 1000))
            options["deliver_after"] = delay
        options["properties"] = {**(options.get("properties") or {}), **counted}
        producer = self._producers.get(target)
        if producer is None:
            opened = await self._open_letter_producer(target, initial)
            producer = self._producers.setdefault(target, opened)
            if producer is not opened:  # another message was faster
                await opened.close()
        await producer.send(message.data, **options)

    async def close(self) -> None:
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            await producer.close()


def _count(message: Message[Any]) -> int:
    text = message.properties.get(RECONSUME_TIMES, "0")
    return int(text) if text.isdigit() else 0


def copy_options(message: Message[Any], added: Mapping[str, str]) -> SendOptions:
    """What to say about a copy; what the message said before wins over `added`."""
    key: str | bytes | None = message.key
    if message.key is not None and message.key.encode() != message.key_bytes:
        key = message.key_bytes  # the text is only how bytes are spelled
    return {
        "key": key,
        "ordering_key": message.ordering_key,
        "properties": {**added, **message.properties},
        "event_time": message.event_time,
    }
