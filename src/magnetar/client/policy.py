"""How a client connects, batches and waits."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from magnetar.client.address import BrokerAddress, parse_addresses
from magnetar.client.error import ConfigurationError
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size
from magnetar.runtime.clock import SYSTEM


@dataclass(frozen=True, slots=True, init=False)
class BackoffPolicy:
    """Delays that grow from `initial` to `maximum`, each spread by `jitter` around its value.

    What is read from it is seconds.
    """

    initial: float
    maximum: float
    multiplier: float
    jitter: float

    def __init__(
        self,
        initial: Duration,
        maximum: Duration,
        multiplier: float = 2.0,
        jitter: float = 0.1,
    ) -> None:
        put = partial(object.__setattr__, self)
        put("initial", parse_duration("initial", initial))
        put("maximum", parse_duration("maximum", maximum))
        put("multiplier", multiplier)
        put("jitter", jitter)
        if self.maximum < self.initial:
            raise ConfigurationError("The maximum of a backoff must not be below its initial delay")
        if multiplier < 1 or not 0 <= jitter < 1:
            raise ConfigurationError("multiplier must not be below 1, and jitter is from 0 to 1")

    @classmethod
    def fixed(cls, delay: Duration) -> BackoffPolicy:
        """The same delay each time."""
        return cls(delay, delay, multiplier=1.0, jitter=0.0)

    def delay(self, attempt: int, chance: random.Random) -> float:
        """Seconds before the attempt after `attempt` failed ones; the first is number 0."""
        # Beyond 2000 doublings a float ends; the maximum was reached long before.
        grown = min(self.maximum, self.initial * self.multiplier ** min(attempt, 500))
        return grown * (1 + self.jitter * (chance.random() - 0.5))

    def capped(self, most: float) -> BackoffPolicy:
        """The same, with delays of at most so many seconds beyond the first."""
        maximum = max(self.initial, min(self.maximum, most))
        return BackoffPolicy(self.initial, maximum, self.multiplier, self.jitter)

    def begin(self, chance: random.Random | None = None) -> Delays:
        """The delays of one series of attempts."""
        return Delays(self, chance or SYSTEM.chance)


@dataclass(slots=True)
class Delays:
    """How long to wait before the next attempt, and the next."""

    policy: BackoffPolicy
    chance: random.Random
    _attempt: int = 0

    def next_s(self) -> float:
        delay = self.policy.delay(self._attempt, self.chance)
        self._attempt += 1
        return delay


@dataclass(frozen=True, slots=True, init=False)
class ConnectionPolicy:
    """How brokers are reached. Durations are seconds or timedeltas; what is read is seconds."""

    connection_timeout: float
    """How long one attempt to connect may take."""
    connections_per_broker: int
    """Producers and consumers take turns on so many connections to each broker."""
    tcp_no_delay: bool
    """True sends small packets at once; False lets the system collect them."""
    keep_alive: float
    """How often a connection is tried; one that did not answer by the next time is given up."""
    max_idle: float
    """An idle connection is closed after this time; 0 keeps it."""
    proxy_url: str | None
    """`pulsar+ssl://host:port` of a proxy that goes by the name in the TLS handshake (SNI)."""
    backoff: BackoffPolicy
    """Between attempts to get back what was lost."""
    refused_timeout: float
    """How long a client that was never connected goes on where every host of the service URL
    refuses the connection: nothing listens there, as on a wrong port. Later, and wherever else it
    fails, brokers may be restarting, and have the operation timeout. A program that starts before
    its brokers gives them more."""

    def __init__(
        self,
        connection_timeout: Duration = 10.0,
        connections_per_broker: int = 1,
        tcp_no_delay: bool = True,
        keep_alive: Duration = 30.0,
        max_idle: Duration = 180.0,
        proxy_url: str | None = None,
        backoff: BackoffPolicy | None = None,
        refused_timeout: Duration = 1.0,
    ) -> None:
        put = partial(object.__setattr__, self)
        put("connection_timeout", parse_duration("connection_timeout", connection_timeout))
        put("connections_per_broker", connections_per_broker)
        put("tcp_no_delay", tcp_no_delay)
        put("keep_alive", parse_duration("keep_alive", keep_alive))
        put("max_idle", parse_duration("max_idle", max_idle))
        put("proxy_url", proxy_url)
        put("backoff", backoff or BackoffPolicy(0.1, 60.0))
        put("refused_timeout", parse_duration("refused_timeout", refused_timeout))
        if min(self.connection_timeout, self.keep_alive, self.backoff.initial) <= 0:
            raise ConfigurationError("Timeouts and delays of a connection must be above 0")
        if isinstance(connections_per_broker, bool) or connections_per_broker < 1:
            raise ConfigurationError("connections_per_broker must be above 0")
        if proxy_url is not None and not (self.proxy and self.proxy.secure):
            raise ConfigurationError("proxy_url is pulsar+ssl://host:port, of one proxy")

    @property
    def proxy(self) -> BrokerAddress | None:
        """Where to connect instead."""
        if self.proxy_url is None:
            return None
        hosts = parse_addresses(self.proxy_url)
        return hosts[0] if len(hosts) == 1 else None


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
class DeadLetterPolicy:
    """A message delivered more than `max_redeliveries` + 1 times goes to another topic instead.

    Without `topic` its name is the topic's with `-DLQ`; `client.consumer` puts the subscription in
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
