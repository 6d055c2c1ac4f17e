"""What the REST interface sees of the broker: what it takes, and the names it answers to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from magnetar.broker import port
from magnetar.broker.activity import Activity
from magnetar.broker.administration.message_browser import find_logs
from magnetar.broker.administration.overview import BrokerViews
from magnetar.broker.administration.preview import find_moves
from magnetar.broker.administration.read_part import find_part_owners
from magnetar.broker.administration.scalable_stats import find_details
from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.administration.topic_state import TopicViews
from magnetar.broker.administration.transaction import find_coordinators, find_views
from magnetar.broker.authentication.authenticator import Authenticator
from magnetar.broker.client_limit import ConnectionLimit
from magnetar.broker.connection import Connections
from magnetar.broker.exposition import render_metrics
from magnetar.broker.handler.topic import TopicSource
from magnetar.broker.ownership import Owner
from magnetar.broker.unread import UnreadBytes
from magnetar.model.caller import Caller
from magnetar.model.limit import Limits

_METRICS: Final = "/metrics"
_BODY_BYTES_MAX: Final = 8 << 20
"""More than any call of the interface needs."""


class WebOwners(port.HasConfiguration, port.HasLimits, port.HasOwner, Protocol):
    """Port of what limits requests."""

    @property
    def authentication(self) -> Authenticator: ...
    @property
    def connection_limit(self) -> ConnectionLimit: ...


class AdministrationOwners(
    WebOwners,
    port.HasAuthorization,
    port.HasBrokerId,
    port.HasBundles,
    port.HasCalls,
    port.HasCatalog,
    port.HasClock,
    port.HasCluster,
    port.HasLedgers,
    port.HasOwnership,
    port.HasPolicies,
    port.HasResources,
    port.HasScalable,
    port.HasSchemas,
    port.HasStart,
    port.HasTransactions,
    port.HasTree,
    port.HasWatchdog,
    TopicSource,
    Protocol,
):
    """Port of all that requests are carried out by."""

    @property
    def activity(self) -> Activity: ...
    @property
    def closing(self) -> bool: ...
    @property
    def connections(self) -> Connections: ...
    @property
    def unread(self) -> UnreadBytes: ...

    def next_producer_name(self) -> str: ...


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


def make_web_limit(owners: WebOwners) -> WebLimit:
    config = owners.config
    is_open = not owners.authentication.is_enabled
    body_max = config.httpMaxRequestSize
    return WebLimit(
        header_bytes_max=config.httpMaxRequestHeaderSize,
        body_bytes_max=body_max if body_max > 0 else _BODY_BYTES_MAX,
        requests_max=config.maxConcurrentHttpRequests or None,
        connections_max=owners.connection_limit.http_connections_max,
        handshake_s_max=owners.limits.handshake_s,
        idle_s_max=config.httpServerIdleTimeout / 1000,
        limits=owners.limits,
        names=_names_of(owners.owner) if is_open else None,
        fails_on_unknown_field=lambda: config.httpRequestsFailOnUnknownPropertiesEnabled,
    )


def _names_of(owner: Owner) -> frozenset[str]:
    listeners = [address.url for address in owner.listeners.values()]
    urls = [owner.service_url, owner.web_url, *listeners]
    hosts = (urlsplit(url).hostname for url in urls if url)
    return frozenset({socket.gethostname().lower(), *(host for host in hosts if host)})


_OFFERS: Final[tuple[Callable[[AdministrationOwners], object], ...]] = (
    find_topic_parts,
    find_details,
    find_coordinators,
    find_views,
    find_part_owners,
    find_logs,
    find_moves,
    TopicViews,
    BrokerViews,
)


class Administration:
    """What the REST interface sees of the broker."""

    def __init__(self, owners: AdministrationOwners) -> None:
        self.owners = owners
        self.authorization = owners.authorization
        self.unread = owners.unread
        self.web = make_web_limit(owners)
        for offer in _OFFERS:
            offer(owners)  # to the other brokers

    def guards(self, path: str) -> bool:
        """Whether a page that is usually for everybody is not: metrics, by configuration."""
        return path == _METRICS and self.owners.config.authenticateMetricsEndpoint

    async def authenticate(
        self, headers: Mapping[str, str], certificate_name: str | None, host: str
    ) -> Caller:
        """Raise Unauthenticated for a caller that is not known."""
        authentication = self.owners.authentication
        return await authentication.authenticate_http(headers, certificate_name, host)

    async def render_metrics(self) -> str:
        return await render_metrics(self.owners)
