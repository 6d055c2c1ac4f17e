"""How a client connects, batches and waits."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.client.error import ConfigurationError


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    connection_timeout: float = 10.0
    keep_alive: float = 30.0
    backoff_first: float = 0.1
    backoff_most: float = 60.0

    def __post_init__(self) -> None:
        if min(self.connection_timeout, self.keep_alive, self.backoff_first) <= 0:
            raise ConfigurationError("Timeouts and delays of a connection must be above 0")
        if self.backoff_most < self.backoff_first:
            raise ConfigurationError("backoff_most must not be below backoff_first")


@dataclass(frozen=True, slots=True)
class BatchingPolicy:
    """A batch is sent when it is full by count or size, or `max_delay` seconds after it began."""

    max_delay: float = 0.001
    max_messages: int = 1000
    max_bytes: int = 128 * 1024

    def __post_init__(self) -> None:
        if self.max_delay <= 0 or self.max_messages < 1 or self.max_bytes < 1:
            raise ConfigurationError("The limits of a batch must be above 0")
