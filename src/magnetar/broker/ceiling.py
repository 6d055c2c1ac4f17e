"""How much clients may have under way at once: connections, lookups, topics being loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.errors import NotAllowed, ServiceNotReady, TooManyRequests
from magnetar.rules.connection_limit import plan_connections
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log, PacedLog

_log = Log(__name__)


class Ceiling:
    """Counts what is there and refuses what is too much; in the configuration, 0 is no limit."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self.connections_max = config.brokerMaxConnections
        self.http_connections_max = config.maxHttpServerConnections
        self._refused = PacedLog(_log)
        self._connections = 0
        self._hosts: Counter[str] = Counter()
        self._lookups = 0
        self._loads = 0

    # ------------------------------------------------------------------ connections

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

    # ------------------------------------------------------------------ requests

    @contextmanager
    def looking_up(self) -> Iterator[None]:
        most = self._config.maxConcurrentLookupRequest
        if most and self._lookups >= most:
            raise TooManyRequests(f"Too many lookups are under way: {most}; come back later")
        self._lookups += 1
        try:
            yield
        finally:
            self._lookups -= 1

    @contextmanager
    def loading(self) -> Iterator[None]:
        most = self._config.maxConcurrentTopicLoadRequest
        if most and self._loads >= most:
            raise ServiceNotReady(f"Too many topics are being loaded: {most}; come back later")
        self._loads += 1
        try:
            yield
        finally:
            self._loads -= 1
