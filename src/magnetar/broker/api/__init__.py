"""What an administrator may ask of the broker; the REST edge sees this and nothing behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.api.authentication import AuthenticationApi
from magnetar.broker.api.autoscale import AutoScaleApi
from magnetar.broker.api.migration import MigrationApi
from magnetar.broker.api.namespace_property import NamespacePropertyApi
from magnetar.broker.api.policy import NamespacePolicyApi, TopicPolicyApi
from magnetar.broker.api.scalable import ScalableApi
from magnetar.broker.api.scalable_stats import ScalableStatsApi
from magnetar.broker.api.scalable_subscription import ScalableSubscriptionApi
from magnetar.broker.api.subscription import SubscriptionApi
from magnetar.broker.api.web import make_web_limit
from magnetar.broker.exposition import render_metrics

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class BrokerApi:
    """One part for each kind of thing that is administered."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.access = service.authorization
        self.web = make_web_limit(service)
        self.unread = service.unread
        self.authentication = AuthenticationApi(service)
        self.namespace_policies = NamespacePolicyApi(service)
        self.namespace_properties = NamespacePropertyApi(service)
        self.subscriptions = SubscriptionApi(service)
        self.topic_policies = TopicPolicyApi(service)
        self.auto_scale = AutoScaleApi(service)
        self.scalable = ScalableApi(service, self.auto_scale)
        self.scalable_subscriptions = ScalableSubscriptionApi(service)
        self.scalable_stats = ScalableStatsApi(service, self.subscriptions, self.auto_scale)
        self.migrations = MigrationApi(service)

    async def render_metrics(self) -> str:
        return await render_metrics(self.service)
