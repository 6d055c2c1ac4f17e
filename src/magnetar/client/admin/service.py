"""The admin client: one transport, one object per kind of thing."""

from __future__ import annotations

import ssl
from typing import Self

from magnetar.client.admin.broker import BrokerAdmin
from magnetar.client.admin.cluster import ClusterAdmin
from magnetar.client.admin.namespace import NamespaceAdmin
from magnetar.client.admin.policy import TopicPolicyAdmin
from magnetar.client.admin.scalable import ScalableAdmin
from magnetar.client.admin.schema import SchemaAdmin
from magnetar.client.admin.subscription import SubscriptionAdmin
from magnetar.client.admin.tenant import TenantAdmin
from magnetar.client.admin.topic import TopicAdmin
from magnetar.client.admin.transport import Transport
from magnetar.client.authentication import Authentication, TokenAuthentication
from magnetar.client.error import ConfigurationError
from magnetar.client.tls import TlsPolicy


class AdminClient:
    """Blocking calls over one HTTP connection; for one thread at a time.

    A refused call raises an AdminError with the status and the broker's reason; a broker that
    cannot be reached raises AdminUnreachable.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        authentication: Authentication | None = None,
        tls: TlsPolicy | ssl.SSLContext | None = None,
        timeout: float = 30.0,
    ) -> None:
        if token is not None and authentication is not None:
            raise ConfigurationError("Give one of token and authentication")
        if token is not None:
            authentication = TokenAuthentication(token)
        self._transport = Transport(url, authentication=authentication, tls=tls, timeout_s=timeout)
        self.clusters = ClusterAdmin(self._transport)
        self.brokers = BrokerAdmin(self._transport)
        self.tenants = TenantAdmin(self._transport)
        self.namespaces = NamespaceAdmin(self._transport)
        self.topics = TopicAdmin(self._transport)
        self.scalable_topics = ScalableAdmin(self._transport)
        self.subscriptions = SubscriptionAdmin(self._transport)
        self.schemas = SchemaAdmin(self._transport)
        self.topic_policies = TopicPolicyAdmin(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
