"""How a client connects, batches and waits."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from magnetar.client.error import ConfigurationError
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size


@dataclass(frozen=True, slots=True, init=False)
class ConnectionPolicy:
    """Seconds, or timedeltas; what is read from it is seconds."""

    connection_timeout: float
    keep_alive: float
    backoff_first: float
    backoff_most: float

    def __init__(
        self,
        connection_timeout: Duration = 10.0,
        keep_alive: Duration = 30.0,
        backoff_first: Duration = 0.1,
        backoff_most: Duration = 60.0,
    ) -> None:
        put = partial(object.__setattr__, self)
        put("connection_timeout", parse_duration("connection_timeout", connection_timeout))
        put("keep_alive", parse_duration("keep_alive", keep_alive))
        put("backoff_first", parse_duration("backoff_first", backoff_first))
        put("backoff_most", parse_duration("backoff_most", backoff_most))
        if min(self.connection_timeout, self.keep_alive, self.backoff_first) <= 0:
            raise ConfigurationError("Timeouts and delays of a connection must be above 0")
        if self.backoff_most < self.backoff_first:
            raise ConfigurationError("backoff_most must not be below backoff_first")


@dataclass(frozen=True, slots=True, init=False)
class BatchingPolicy:
    """A batch is sent when it is full by count or size, or `max_delay` seconds after it began.

    With `by_key`, messages of one key only in each batch, so that Key_Shared consumers can part
    them. What is read from it is seconds and bytes.
    """

    max_delay: float
    max_messages: int
    max_bytes: int
    by_key: bool

    def __init__(
        self,
        max_delay: Duration = 0.001,
        max_messages: int = 1000,
        max_bytes: Size = 128 * 1024,
        by_key: bool = False,
    ) -> None:
        put = partial(object.__setattr__, self)
        put("max_delay", parse_duration("max_delay", max_delay))
        put("max_messages", max_messages)
        put("max_bytes", parse_size("max_bytes", max_bytes))
        put("by_key", by_key)
        if self.max_delay <= 0 or self.max_messages < 1 or self.max_bytes < 1:
            raise ConfigurationError("The limits of a batch must be above 0")


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Delays that grow from `initial` to `maximum`, each spread by `jitter` around its value."""

    initial: Duration
    maximum: Duration
    multiplier: float = 2.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        initial = parse_duration("initial", self.initial)
        if parse_duration("maximum", self.maximum) < initial:
            raise ConfigurationError("The maximum of a backoff must not be below its initial delay")
        if self.multiplier < 1 or not 0 <= self.jitter < 1:
            raise ConfigurationError("multiplier must not be below 1, and jitter is from 0 to 1")

    @classmethod
    def fixed(cls, delay: Duration) -> BackoffPolicy:
        """The same delay each time."""
        return cls(delay, delay, multiplier=1.0, jitter=0.0)

    def delay(self, attempt: int, chance: random.Random) -> float:
        """Seconds before the attempt after `attempt` failed ones; the first is number 0."""
        initial = parse_duration("initial", self.initial)
        maximum = parse_duration("maximum", self.maximum)
        # Beyond 2000 doublings a float ends; the maximum was reached long before.
        grown = min(maximum, initial * self.multiplier ** min(attempt, 500))
        return grown * (1 + self.jitter * (chance.random() - 0.5))


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """A message delivered more than `max_redeliveries` + 1 times goes to another topic instead.

    Without `topic` its name is the topic's with `-DLQ`; a classic consumer puts the subscription in
    between. `retry_topic` is where `reconsume_later` puts messages.
    """

    max_redeliveries: int
    topic: str | None = None
    retry_topic: str | None = None
    initial_subscription: str | None = None
    """A subscription made with the dead-letter topic, so that nothing there is lost."""

    def __post_init__(self) -> None:
        if self.max_redeliveries < 0:
            raise ConfigurationError("max_redeliveries must not be below 0")
