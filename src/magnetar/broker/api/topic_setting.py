"""The table of a topic's policies that have a path of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from magnetar.broker.api.namespace_setting import check_entry_filters
from magnetar.broker.api.offload import check_offload_policies
from magnetar.broker.default import read_quorum_max
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    Int32,
    Int64,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionTypeName,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.model.validation import (
    check_delayed_delivery,
    check_inactive_topic,
    check_max_message_size,
    check_message_ttl,
    check_not_negative,
    check_persistence,
    check_rate,
    check_retention,
    check_retention_exceeds_quotas,
    check_subscription_expiration,
)

if TYPE_CHECKING:
    from magnetar.broker.service import Service

Check: TypeAlias = "Callable[[Any, TopicPolicies, Service], None]"

_UNSET: Final = TopicPolicies()


def _no_check(value: Any, applied: TopicPolicies, service: Service) -> None:
    """Any value of the right shape will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One policy. None removes; `bodyless` is what a write without a body means."""

    name: str
    field: str
    body: Any
    verb: str = "POST"
    priority: str = "P1"
    in_query: bool = False
    bodyless: Any = None
    when_unset: Any = None
    check: Check = _no_check

    def read(self, policies: TopicPolicies) -> Any:
        value = getattr(policies, self.field)
        return self.when_unset if value in (None, ()) else value

    def apply(self, policies: TopicPolicies, value: Any) -> TopicPolicies:
        stored = getattr(_UNSET, self.field) if value is None else value
        return replace(policies, **{self.field: stored})


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedDeliverySetting(TopicSetting):
    """Three fields of the record that are one object over REST."""

    def read(self, policies: TopicPolicies) -> Any:
        if policies.delayedDeliveryEnabled is None:
            return None
        return DelayedDeliveryPolicies(
            active=policies.delayedDeliveryEnabled,
            tickTime=policies.delayedDeliveryTickTimeMillis or 0,
            maxDeliveryDelayInMillis=policies.delayedDeliveryMaxDelayInMillis or 0,
        )

    def apply(self, policies: TopicPolicies, value: Any) -> TopicPolicies:
        unset = value is None
        return replace(
            policies,
            delayedDeliveryEnabled=None if unset else value.active,
            delayedDeliveryTickTimeMillis=None if unset else value.tickTime,
            delayedDeliveryMaxDelayInMillis=None if unset else value.maxDeliveryDelayInMillis,
        )


# Checks
def _at_least_zero(name: str) -> Check:
    def check(value: Any, applied: TopicPolicies, service: Service) -> None:
        check_not_negative(name, value)

    return check


def _check_ttl(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_message_ttl(value)


def _check_expiration(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_subscription_expiration(value)


def _check_retention(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_retention(value)
    check_retention_exceeds_quotas(value, applied.backLogQuotaMap.values(), level="topic")


def _check_persistence(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_persistence(value, quorum_max=read_quorum_max(service.config))


def _check_message_size(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_max_message_size(value, broker_max=service.config.maxMessageSize)


def check_dispatch_rate(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_rate(
        "dispatch rate",
        value.dispatchThrottlingRateInMsg,
        value.dispatchThrottlingRateInByte,
        period_s=value.ratePeriodInSecond,
    )


def _check_publish_rate(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_rate("publish rate", value.publishThrottlingRateInMsg, value.publishThrottlingRateInByte)


def _check_subscribe_rate(value: Any, applied: TopicPolicies, service: Service) -> None:
    limit, period_s = value.subscribeThrottlingRatePerConsumer, value.ratePeriodInSecond
    check_rate("subscribe rate", limit, period_s=period_s)


def _check_inactive(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_inactive_topic(value)


def _check_delay(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_delayed_delivery(value)


def _check_filters(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_entry_filters(value)


def _check_offload(value: Any, applied: TopicPolicies, service: Service) -> None:
    check_offload_policies(value)


def _plain(name: str, body: Any, field: str = "", **options: Any) -> TopicSetting:
    return TopicSetting(name=name, field=field or name, body=body, **options)


def _limit(name: str, field: str = "", sentence_name: str = "") -> TopicSetting:
    return _plain(name, Int32, field, check=_at_least_zero(sentence_name or name))


REPLICATION: Final = _plain("replication", tuple[str, ...], "replicationClusters", priority="P2")

SETTINGS: Final[tuple[TopicSetting, ...]] = (
    _plain("retention", RetentionPolicies, "retentionPolicies", check=_check_retention),
    _plain("persistence", PersistencePolicies, check=_check_persistence),
    _plain("dispatchRate", DispatchRate, check=check_dispatch_rate),
    _plain("subscriptionDispatchRate", DispatchRate, check=check_dispatch_rate),
    _plain("publishRate", PublishRate, check=_check_publish_rate),
    _plain("subscribeRate", SubscribeRate, check=_check_subscribe_rate),
    _plain("replicatorDispatchRate", DispatchRate, check=check_dispatch_rate),
    _plain("inactiveTopicPolicies", InactiveTopicPolicies, check=_check_inactive),
    DelayedDeliverySetting(
        name="delayedDelivery",
        field="delayedDeliveryEnabled",
        body=DelayedDeliveryPolicies,
        check=_check_delay,
    ),
    _plain("offloadPolicies", dict[str, Any], check=_check_offload),
    _plain("messageTTL", Int32, "messageTTLInSeconds", in_query=True, check=_check_ttl),
    _plain(
        "subscriptionExpirationTime",
        Int32,
        "subscriptionExpirationTimeInMinutes",
        in_query=True,
        check=_check_expiration,
    ),
    _limit("maxProducers", "maxProducerPerTopic"),
    _limit("maxConsumers", "maxConsumerPerTopic"),
    _limit("maxConsumersPerSubscription"),
    _limit("maxSubscriptionsPerTopic"),
    _limit("maxUnackedMessagesOnConsumer", sentence_name="maxUnackedNum"),
    _limit("maxUnackedMessagesOnSubscription", sentence_name="maxUnackedNum"),
    _plain("maxMessageSize", Int32, check=_check_message_size),
    _limit(
        "deduplicationSnapshotInterval",
        "deduplicationSnapshotIntervalSeconds",
        sentence_name="interval",
    ),
    _plain("compactionThreshold", Int64, check=_at_least_zero("compactionThreshold")),
    _plain("deduplicationEnabled", bool),
    _plain("schemaCompatibilityStrategy", CompatibilityStrategy, verb="PUT"),
    _plain("schemaValidationEnforced", bool, when_unset=False),
    REPLICATION,
    _plain("subscriptionTypesEnabled", tuple[SubscriptionTypeName, ...], priority="P2"),
    _plain("entryFilters", EntryFilters, priority="P2", check=_check_filters),
    _plain(
        "autoSubscriptionCreation",
        AutoSubscriptionCreationOverride,
        "autoSubscriptionCreationOverride",
        priority="P2",
    ),
    _plain(
        "dispatcherPauseOnAckStatePersistent",
        bool,
        "dispatcherPauseOnAckStatePersistentEnabled",
        priority="P2",
        bodyless=True,
        when_unset=False,
    ),
)
