"""Code of the application that sees every message on its way out or in.

Interceptors run on the event loop, in their order; they must not block. With a blocking
`submit`, `before_send` runs in the caller's thread. What they raise on the way out fails the send;
elsewhere it is logged and the message goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions
from magnetar.runtime.log import Logger

if TYPE_CHECKING:
    from magnetar.client.message import Message

_log = Logger(__name__)


class ProducerInterceptor:
    """Override what is of interest; the rest does nothing."""

    def before_send(
        self, topic: str, data: bytes | None, options: MessageOptions
    ) -> tuple[bytes | None, MessageOptions]:
        """Return what to send instead; the key was used for routing already and has to stay."""
        return data, options

    def on_sent(self, topic: str, id: Any, error: BaseException | None) -> None:
        """The broker confirmed the message, or it failed."""

    def on_ended(
        self, topic: str, options: MessageOptions, id: Any, error: BaseException | None
    ) -> None:
        """The same for those who want to know which: with what `before_send` returned."""
        self.on_sent(topic, id, error)


class ConsumerInterceptor:
    """Override what is of interest; the rest does nothing."""

    def on_receive(self, message: Message[Any]) -> Message[Any]:
        """Return what to hand to the application instead."""
        return message

    def on_acknowledge(self, topic: str, ids: Sequence[MessageId], *, is_cumulative: bool) -> None:
        """The application is done with these."""

    def on_negative_acknowledge(self, topic: str, id: MessageId) -> None:
        """The application wants it again."""


def intercept_message(
    interceptors: Sequence[ConsumerInterceptor], message: Message[Any]
) -> Message[Any]:
    for interceptor in interceptors:
        try:
            message = interceptor.on_receive(message)
        # An application's code may raise anything, and the message has to arrive all the same.
        except Exception as error:
            _log.error("interceptor failed", error=error, topic=message.topic)
    return message


def tell_acknowledged(
    interceptors: Sequence[ConsumerInterceptor],
    topic: str,
    ids: Sequence[MessageId],
    *,
    is_cumulative: bool,
) -> None:
    for interceptor in interceptors:
        try:
            interceptor.on_acknowledge(topic, ids, is_cumulative=is_cumulative)
        except Exception as error:
            _log.error("interceptor failed", error=error, topic=topic)


def tell_refused(interceptors: Sequence[ConsumerInterceptor], topic: str, id: MessageId) -> None:
    for interceptor in interceptors:
        try:
            interceptor.on_negative_acknowledge(topic, id)
        except Exception as error:
            _log.error("interceptor failed", error=error, topic=topic)


def tell_sent(
    interceptors: Sequence[ProducerInterceptor],
    topic: str,
    options: MessageOptions,
    id: Any,
    error: BaseException | None,
) -> None:
    for interceptor in interceptors:
        try:
            interceptor.on_ended(topic, options, id, error)
        except Exception as failure:
            _log.error("interceptor failed", error=failure, topic=topic)


def name_topic(topic: str) -> str:
    """The topic that a segment belongs to; applications know no segments."""
    if topic.startswith("segment://"):
        return "topic" + topic[len("segment") :].rpartition("/")[0]
    return topic
