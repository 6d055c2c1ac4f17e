"""The admin client for asyncio: one transport, one object per kind of thing."""

from __future__ import annotations

from typing import Final, Self

from magnetar.client.admin.composed import (
    AsyncNamespaceAdmin,
    AsyncTenantAdmin,
    AsyncTopicAdmin,
)
from magnetar.client.admin.network import Network
from magnetar.client.admin.operation import (
    AsyncBookieAdmin,
    AsyncBrokerAdmin,
    AsyncClusterAdmin,
    AsyncReadAdmin,
    AsyncScalableTopicAdmin,
    AsyncSchemaAdmin,
    AsyncSubscriptionAdmin,
    AsyncTransactionAdmin,
)
from magnetar.client.admin.policy import AsyncTopicPolicyAdmin
from magnetar.client.admin.transport import Transport
from magnetar.client.authentication import Authentication, Tls, TokenAuthentication
from magnetar.client.error import ConfigurationError


class AsyncAdmin:
    """The admin REST API over HTTP connections that stay open; a context manager.

    Several calls may be under way at a time, each on a connection of its own. A refused call raises
    an AdminError with the status and the broker's reason; a broker that cannot be reached raises
    AdminUnreachable.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        authentication: Authentication | None = None,
        tls: Tls | None = None,
        timeout: float = 30.0,
    ) -> None:
        if token is not None and authentication is not None:
            raise ConfigurationError("Give one of token and authentication")
        if token is not None:
            authentication = TokenAuthentication(token)
        self._transport = Transport(
            url,
            network=self._make_network(),
            authentication=authentication,
            tls=tls,
            timeout_s=timeout,
        )
        self.clusters: Final = AsyncClusterAdmin(self._transport)
        self.bookies: Final = AsyncBookieAdmin(self._transport)
        self.brokers: Final = AsyncBrokerAdmin(self._transport)
        self.tenants: Final = AsyncTenantAdmin(self._transport)
        self.namespaces: Final = AsyncNamespaceAdmin(self._transport)
        self.topics: Final = AsyncTopicAdmin(self._transport)
        self.scalable_topics: Final = AsyncScalableTopicAdmin(self._transport)
        self.subscriptions = AsyncSubscriptionAdmin(self._transport)
        self.schemas = AsyncSchemaAdmin(self._transport)
        self.topic_policies: Final = AsyncTopicPolicyAdmin(self._transport)
        self.transactions: Final = AsyncTransactionAdmin(self._transport)
        self.reads: Final = AsyncReadAdmin(self._transport)

    def _make_network(self) -> Network:
        from magnetar.client.admin.loop import LoopNetwork

        return LoopNetwork()

    @property
    def url(self) -> str:
        return self._transport.url

    async def close(self) -> None:
        """Calls under way finish; later ones raise AlreadyClosedError."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
