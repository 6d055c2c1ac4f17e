"""How much clients may have under way at once: connections, lookups, topics being loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.errors import NotAllowed, ServiceNotReady, TooManyRequests
from magnetar.runtime.configuration import Configuration


class Ceiling:
    """Counts what is there and refuses what is too much; in the configuration, 0 is no limit."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._connections = 0
        self._hosts: Counter[str] = Counter()
        self._lookups = 0
        self._loads = 0

    # ------------------------------------------------------------------ connections

    def enter(self, host: str) -> None:
        """Count a connection. Raise NotAllowed, and count nothing, when there are too many."""
        most = self._config.brokerMaxConnections
        if most and self._connections >= most:
            raise NotAllowed(f"Reached the maximum number of connections: {most}")
        most = self._config.brokerMaxConnectionsPerIp
        if most and self._hosts[host] >= most:
            raise NotAllowed(f"Reached the maximum number of connections from {host}: {most}")
        self._connections += 1
        self._hosts[host] += 1

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
