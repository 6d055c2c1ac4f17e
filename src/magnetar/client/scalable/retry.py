"""Messages of a queue that are put aside: they come again through a retry topic."""

from __future__ import annotations

from dataclasses import replace

from magnetar.client.dead_letter import OpenLetterProducer
from magnetar.client.error import ConfigurationError
from magnetar.client.policy import DeadLetterPolicy
from magnetar.client.retry_letter import RetryLetters
from magnetar.client.scalable.layout import parse_scalable
from magnetar.model.name import TopicName


def plan_retries(
    policy: DeadLetterPolicy | None,
    topics: tuple[TopicName, ...],
    subscription: str,
    *,
    open_letter_producer: OpenLetterProducer,
) -> tuple[tuple[TopicName, ...], DeadLetterPolicy | None, RetryLetters | None]:
    """What to consume, the retry topic among it, and where messages are put aside."""
    if policy is None or policy.retry_topic is None:
        return topics, policy, None
    if not topics:
        raise ConfigurationError("A consumer of a namespace has no retry_topic; give it topics")
    retry_topic = parse_scalable(policy.retry_topic)
    graves = policy.topic or f"{topics[0]}-DLQ"
    retries = RetryLetters(
        subscription,
        retry_topic=retry_topic.full,
        dead_letter_topic=graves,
        policy=policy,
        open_letter_producer=open_letter_producer,
    )
    return (*topics, retry_topic), replace(policy, topic=graves), retries
