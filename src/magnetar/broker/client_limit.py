"""Limits of what clients may have under way at once: connections, and requests of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from magnetar.errors import BrokerError, NotAllowed
from magnetar.rules.connection_limit import plan_connections
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger, PacedLog

_log = Logger(__name__)


class ConnectionLimit:
    """Counts connections and refuses what is too much; in the configuration, 0 is no limit."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self.connections_max = config.brokerMaxConnections
        self.http_connections_max = config.maxHttpServerConnections
        self._refused = PacedLog(_log)
        self._connections = 0
        self._hosts: Counter[str] = Counter()

    def fit(self, descriptors: int) -> None:
        """Leave enough of the process's file descriptors for journal, ledgers and metadata."""
        plan = plan_connections(
            descriptors, self._config.brokerMaxConnections, self._config.maxHttpServerConnections
        )
        self.connections_max, self.http_connections_max = plan.connections, plan.http_connections
        if plan.connections < self._config.brokerMaxConnections:
            _log.warning(
                "brokerMaxConnections is more than the file descriptors allow",
                descriptors=descriptors,
                connections=plan.connections,
            )

    def enter(self, host: str) -> None:
        """Count a connection. Raise NotAllowed, and count nothing, when there are too many."""
        most = self.connections_max
        if most and self._connections >= most:
            raise NotAllowed(f"Reached the maximum number of connections: {most}")
        most = self._config.brokerMaxConnectionsPerIp
        if most and self._hosts[host] >= most:
            raise NotAllowed(f"Reached the maximum number of connections from {host}: {most}")
        self._connections += 1
        self._hosts[host] += 1

    def on_refused(self, address: str, refusal: NotAllowed) -> None:
        self._refused.warning("connection refused", address=address, reason=refusal.sentence)

    def leave(self, host: str) -> None:
        self._connections -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


class RequestLimit:
    """Counts requests of one kind and refuses what is too much; 0 is no limit."""

    def __init__(self, most: Callable[[], int], refusal: type[BrokerError], excess: str) -> None:
        """`refusal` is raised with a sentence that begins with `excess`."""
        self._most = most
        self._refusal = refusal
        self._excess = excess
        self._count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        most = self._most()
        if most and self._count >= most:
            raise self._refusal(f"{self._excess}: {most}; come back later")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
