"""Messages put aside: they go to a retry topic with a delay, and are redelivered from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magnetar.client.dead_letter import (
    DELAY_TIME,
    ORIGIN_MESSAGE_ID,
    REAL_SUBSCRIPTION,
    REAL_TOPIC,
    RECONSUME_TIMES,
    LetterProducer,
    OpenLetterProducer,
    copy_options,
)
from magnetar.client.error import ConfigurationError
from magnetar.client.layout import parse_name, parse_regular, parse_scalable
from magnetar.client.message import Message
from magnetar.client.policy import DeadLetterPolicy
from magnetar.model.name import TopicName


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


def plan_letters(
    policy: DeadLetterPolicy | None,
    topics: tuple[TopicName, ...],
    subscription: str,
    *,
    is_regular: bool,
    open_letter_producer: OpenLetterProducer,
) -> tuple[tuple[TopicName, ...], DeadLetterPolicy | None, RetryLetters | None]:
    """What to consume, the retry topic among it, where dead letters go, and what puts messages
    aside. On regular topics the names are those that other clients give.
    """
    if policy is None:
        return topics, None, None
    graves = policy.topic and parse_name(policy.topic).full
    if graves is None and topics:
        middle = f"-{subscription}" if is_regular else ""
        graves = f"{topics[0].base.full}{middle}-DLQ"
    if is_regular and graves is None:
        raise ConfigurationError("With a pattern, dead_letter needs a topic of its own")
    named = replace(policy, topic=graves)
    if policy.retry_topic is None:
        return topics, named if is_regular else policy, None
    if not topics or graves is None:
        raise ConfigurationError("A retry_topic needs topics, not a namespace or a pattern")
    parse = parse_regular if is_regular else parse_scalable
    retry_topic = parse(policy.retry_topic)
    retries = RetryLetters(
        subscription,
        retry_topic=retry_topic.full,
        dead_letter_topic=graves,
        policy=policy,
        open_letter_producer=open_letter_producer,
    )
    return (*topics, retry_topic), named, retries
