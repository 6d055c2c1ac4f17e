"""What the REST interface sees of the broker: what it takes, and the names it answers to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from magnetar.broker.administration.message_browser import find_logs
from magnetar.broker.administration.overview import BrokerViews
from magnetar.broker.administration.preview import find_moves
from magnetar.broker.administration.read_part import find_part_owners
from magnetar.broker.administration.scalable_stats import find_details
from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.administration.topic_state import TopicStates
from magnetar.broker.administration.transaction import find_coordinators
from magnetar.broker.exposition import render_metrics
from magnetar.broker.service import Service
from magnetar.model.caller import Caller
from magnetar.model.limit import Limits

_METRICS: Final = "/metrics"
_BODY_BYTES_MAX: Final = 8 << 20
"""More than any call of the interface needs."""


@dataclass(frozen=True, slots=True)
class WebLimit:
    header_bytes_max: int
    body_bytes_max: int
    requests_max: int | None
    connections_max: int
    handshake_s_max: float
    """How long a TLS handshake may take."""
    idle_s_max: float
    """How long the head or the body of a request may take to come, a part of an answer to be taken,
    and the next request to begin."""
    limits: Limits
    names: frozenset[str] | None
    """What requests may call the broker; None where it asks for credentials and need not care."""
    fails_on_unknown_field: Callable[[], bool]
    """Whether a body is refused for any field that is not known; may change at run time."""


def make_web_limit(service: Service) -> WebLimit:
    config = service.config
    is_open = not service.authentication.is_enabled
    body_max = config.httpMaxRequestSize
    return WebLimit(
        header_bytes_max=config.httpMaxRequestHeaderSize,
        body_bytes_max=body_max if body_max > 0 else _BODY_BYTES_MAX,
        requests_max=config.maxConcurrentHttpRequests or None,
        connections_max=service.connection_limit.http_connections_max,
        handshake_s_max=service.limits.handshake_s,
        idle_s_max=config.httpServerIdleTimeout / 1000,
        limits=service.limits,
        names=_names_of(service) if is_open else None,
        fails_on_unknown_field=lambda: config.httpRequestsFailOnUnknownPropertiesEnabled,
    )


def _names_of(service: Service) -> frozenset[str]:
    owner = service.owner
    listeners = [address.url for address in owner.listeners.values()]
    urls = [owner.service_url, owner.web_url, *listeners]
    hosts = (urlsplit(url).hostname for url in urls if url)
    return frozenset({socket.gethostname().lower(), *(host for host in hosts if host)})


_OFFERS: Final[tuple[Callable[[Service], object], ...]] = (
    find_topic_parts,
    find_details,
    find_coordinators,
    find_part_owners,
    find_logs,
    find_moves,
    TopicStates,
    BrokerViews,
)


class Administration:
    """What the REST interface sees of the broker."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.access = service.authorization
        self.unread = service.unread
        self.web = make_web_limit(service)
        for offer in _OFFERS:
            offer(service)  # to the other brokers

    def guards(self, path: str) -> bool:
        """Whether a page that is usually for everybody is not: metrics, by configuration."""
        return path == _METRICS and self.service.config.authenticateMetricsEndpoint

    async def authenticate(
        self, headers: Mapping[str, str], certificate_name: str | None, host: str
    ) -> Caller:
        """Raise Unauthenticated for a caller that is not known."""
        authentication = self.service.authentication
        return await authentication.authenticate_http(headers, certificate_name, host)

    async def render_metrics(self) -> str:
        return await render_metrics(self.service)
