"""The settings of namespaces and topics: under which path each is read, written and removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from magnetar.client.admin.name import format_namespace, format_topic
from magnetar.client.admin.transport import Transport, format_path
from magnetar.client.error import ConfigurationError


class Policy(NamedTuple):
    """`key` is the name people use; the rest says how REST spells it."""

    key: str
    path: str
    write: str = "POST"
    read_path: str | None = None
    remove: str | None = "DELETE"
    remove_path: str | None = None
    value_in_query: bool = False

    @property
    def reading(self) -> str:
        return self.read_path or self.path

    @property
    def removing(self) -> str:
        return self.remove_path or self.path


def _table(*policies: Policy) -> Mapping[str, Policy]:
    return {policy.key: policy for policy in policies}


_SHARED: Final = (
    Policy("retention", "retention"),
    Policy("backlog-quota", "backlogQuota", read_path="backlogQuotaMap"),
    Policy("persistence", "persistence"),
    Policy("dispatch-rate", "dispatchRate"),
    Policy("subscription-dispatch-rate", "subscriptionDispatchRate"),
    Policy("replicator-dispatch-rate", "replicatorDispatchRate"),
    Policy("publish-rate", "publishRate"),
    Policy("subscribe-rate", "subscribeRate"),
    Policy("delayed-delivery", "delayedDelivery"),
    Policy("inactive-topic-policies", "inactiveTopicPolicies"),
    Policy("max-consumers-per-subscription", "maxConsumersPerSubscription"),
    Policy("max-subscriptions-per-topic", "maxSubscriptionsPerTopic"),
    Policy("schema-validation-enforce", "schemaValidationEnforced", remove=None),
    Policy("auto-subscription-creation", "autoSubscriptionCreation"),
    Policy("subscription-types-enabled", "subscriptionTypesEnabled"),
    Policy("entry-filters", "entryFilters"),
    Policy(
        "dispatcher-pause-on-ack-state-persistent",
        "dispatcherPauseOnAckStatePersistent",
    ),
)

NAMESPACE_POLICIES: Final = _table(
    *_SHARED,
    Policy("message-ttl", "messageTTL"),
    Policy("subscription-expiration-time", "subscriptionExpirationTime"),
    Policy("deduplication", "deduplication"),
    # There is no DELETE for it: writing null removes it.
    Policy("deduplication-snapshot-interval", "deduplicationSnapshotInterval", remove="POST"),
    Policy("clusters", "replication", remove=None),
    Policy("allowed-clusters", "allowedClusters", remove=None),
    Policy("auto-topic-creation", "autoTopicCreation"),
    Policy("max-producers-per-topic", "maxProducersPerTopic"),
    Policy("max-consumers-per-topic", "maxConsumersPerTopic"),
    Policy("max-unacked-messages-per-consumer", "maxUnackedMessagesPerConsumer"),
    Policy("max-unacked-messages-per-subscription", "maxUnackedMessagesPerSubscription"),
    Policy("max-topics-per-namespace", "maxTopicsPerNamespace"),
    Policy("compaction-threshold", "compactionThreshold", write="PUT"),
    Policy("offload-threshold", "offloadThreshold", write="PUT", remove=None),
    Policy("offload-threshold-in-seconds", "offloadThresholdInSeconds", write="PUT", remove=None),
    Policy("offload-deletion-lag", "offloadDeletionLagMs", write="PUT"),
    Policy("offload-policies", "offloadPolicies", remove_path="removeOffloadPolicies"),
    Policy(
        "schema-compatibility-strategy", "schemaCompatibilityStrategy", write="PUT", remove=None
    ),
    Policy("is-allow-auto-update-schema", "isAllowAutoUpdateSchema", remove=None),
    Policy("encryption-required", "encryptionRequired", remove=None),
    Policy("subscription-auth-mode", "subscriptionAuthMode", remove=None),
    Policy("scalable-topic-auto-scale-policy", "scalableTopicAutoScalePolicy"),
)

TOPIC_POLICIES: Final = _table(
    *_SHARED,
    Policy("message-ttl", "messageTTL", value_in_query=True),
    Policy("subscription-expiration-time", "subscriptionExpirationTime", value_in_query=True),
    Policy("deduplication", "deduplicationEnabled"),
    Policy("deduplication-snapshot-interval", "deduplicationSnapshotInterval"),
    Policy("replication-clusters", "replication"),
    Policy("max-producers", "maxProducers"),
    Policy("max-consumers", "maxConsumers"),
    Policy("max-unacked-messages-per-consumer", "maxUnackedMessagesOnConsumer"),
    Policy("max-unacked-messages-per-subscription", "maxUnackedMessagesOnSubscription"),
    Policy("max-message-size", "maxMessageSize"),
    Policy("compaction-threshold", "compactionThreshold"),
    Policy("offload-policies", "offloadPolicies"),
    Policy("schema-compatibility-strategy", "schemaCompatibilityStrategy", write="PUT"),
    Policy("schema-validation-enforce", "schemaValidationEnforced"),
)

SUBSCRIPTION_POLICY: Final = "subscription-dispatch-rate"
"""The policy of a topic that one subscription may have for itself."""


def find_policy(policies: Mapping[str, Policy], key: str) -> Policy:
    found = policies.get(key)
    if found is None:
        raise ConfigurationError(f"No policy is called {key!r}; there are {', '.join(policies)}")
    return found


async def write_policy(
    transport: Transport, root: str, policy: Policy, value: Any, query: Mapping[str, Any]
) -> None:
    path = f"{root}/{policy.path}"
    if policy.value_in_query:
        await transport.call(policy.write, path, query={policy.path: value, **query})
    else:
        await transport.call(policy.write, path, body=value, query=query)


async def remove_policy(
    transport: Transport, root: str, policy: Policy, query: Mapping[str, Any]
) -> None:
    path = f"{root}/{policy.removing}"
    if policy.remove is None:
        raise ConfigurationError(f"The policy {policy.key} can be set but not removed")
    if policy.remove == "DELETE":
        await transport.delete(path, query)
    else:
        await transport.call(policy.remove, path, body=None, query=query)


class AsyncTopicPolicyAdmin:
    """What is set on a topic itself, local or (`is_global`) for every cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(
        self,
        topic: str,
        key: str,
        *,
        applied: bool = False,
        is_global: bool = False,
        subscription: str = "",
    ) -> Any:
        """None when unset; `applied` looks further up, to the namespace and the broker.

        With a `subscription` it is the `subscription-dispatch-rate` of that one alone.
        """
        policy = _find(key, subscription)
        query = {"applied": applied, "isGlobal": is_global}
        return await self._transport.get(f"{_root(topic)}/{policy.reading}", query)

    async def set(
        self,
        /,
        topic: str,
        key: str,
        value: Any,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        policy = _find(key, subscription)
        query["isGlobal"] = is_global
        await write_policy(self._transport, _root(topic), policy, value, query)

    async def remove(
        self,
        /,
        topic: str,
        key: str,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        policy = _find(key, subscription)
        query["isGlobal"] = is_global
        await remove_policy(self._transport, _root(topic), policy, query)

    async def backend(self, namespace: str) -> Mapping[str, str]:
        """What keeps the policies of a namespace's topics (`backend`), and why (`reason`)."""
        path = f"admin/v2/namespaces/{format_namespace(namespace, 'topicPoliciesBackend')}"
        found: Mapping[str, str] = await self._transport.get(path)
        return found

    async def delete(self, topic: str) -> None:
        """Remove every setting of the topic; works even when the topic is gone."""
        await self._transport.delete(f"{_root(topic)}/policies")


def _find(key: str, subscription: str) -> Policy:
    policy = find_policy(TOPIC_POLICIES, key)
    if not subscription:
        return policy
    if key != SUBSCRIPTION_POLICY:
        raise ConfigurationError(f"A subscription has no {key} of its own: {SUBSCRIPTION_POLICY}")
    return policy._replace(path=format_path(subscription, "dispatchRate"))


def _root(topic: str) -> str:
    return f"admin/v2/{format_topic(topic)}"
