"""Who may do what: kept in the namespace's policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from magnetar.broker.administration.port import TopicSettings
from magnetar.broker.administration.record import (
    Change,
    Store,
    load_policies,
    store_policies,
    without,
)
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.resource import Resources
from magnetar.errors import TopicNotFound
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.permission import AuthAction
from magnetar.model.policy import AuthPolicies, Policies
from magnetar.model.tenancy import TopicGrant, TopicRevocation
from magnetar.rules import grant as grant_rules
from magnetar.rules.permission import reaching_names

_Actions: TypeAlias = Mapping[str, Sequence[AuthAction]]
_Change: TypeAlias = Callable[[AuthPolicies], AuthPolicies]


# A namespace
@carries_out("namespaces.permissions")
async def namespace_permissions(policies: Policies) -> _Actions:
    return policies.auth_policies.namespace_auth


@carries_out("namespaces.grant")
async def grant_on_namespace(store: Store, role: str, actions: list[AuthAction]) -> None:
    granted = {role: grant_rules.distinct(actions)}
    await store(
        _changing(lambda auth: replace(auth, namespace_auth={**auth.namespace_auth, **granted}))
    )


@carries_out("namespaces.revoke")
async def revoke_on_namespace(store: Store, role: str) -> None:
    await store(
        _changing(lambda auth: replace(auth, namespace_auth=without(auth.namespace_auth, role)))
    )


# One topic
@carries_out("topics.permissions")
async def topic_permissions(owners: TopicSettings, topic: TopicName) -> _Actions:
    """What is granted on the namespace and on the topic, together."""
    await _names_of(owners, topic)
    auth = (await load_policies(owners.resources, topic.namespace)).auth_policies
    found: dict[str, tuple[AuthAction, ...]] = dict(auth.namespace_auth)
    for source in reaching_names(topic):
        for role, actions in auth.destination_auth.get(source, {}).items():
            found[role] = grant_rules.distinct((*found.get(role, ()), *actions))
    return found


@carries_out("topics.grant")
async def grant_on_topic(
    owners: TopicSettings, topic: TopicName, role: str, actions: list[AuthAction]
) -> None:
    await grant_on_topics(owners, [TopicGrant(topic=topic.full, role=role, actions=actions)])


@carries_out("topics.revoke")
async def revoke_on_topic(owners: TopicSettings, topic: TopicName, role: str) -> None:
    await revoke_on_topics(owners, [TopicRevocation(topic=topic.full, role=role)])


@carries_out("namespaces.grant_on_topics")
async def grant_on_topics(owners: TopicSettings, grants: list[TopicGrant]) -> None:
    """All topics must exist; the grants in one namespace come into force together."""
    wanted: dict[NamespaceName, list[tuple[str, TopicGrant]]] = {}
    for grant in grants:
        topic = parse_topic(grant.topic)
        names = await _names_of(owners, topic)
        wanted.setdefault(topic.namespace, []).extend((name, grant) for name in names)
    for namespace, rows in wanted.items():
        change = _changing(partial(grant_rules.grant_on_topics, rows))
        await store_policies(owners.resources, namespace, change)


@carries_out("namespaces.revoke_on_topics")
async def revoke_on_topics(owners: TopicSettings, revocations: list[TopicRevocation]) -> None:
    wanted: dict[NamespaceName, list[tuple[TopicName, str]]] = {}
    for revocation in revocations:
        topic = parse_topic(revocation.topic)
        await _names_of(owners, topic)
        wanted.setdefault(topic.namespace, []).append((topic, revocation.role))
    for namespace, rows in wanted.items():
        change = _changing(partial(grant_rules.revoke_on_topics, rows))
        await store_policies(owners.resources, namespace, change)


async def forget_permissions(resources: Resources, topic: TopicName) -> None:
    if await resources.namespaces.get(topic.namespace) is not None:
        change = _changing(partial(grant_rules.forget_topic, topic))
        await resources.namespaces.update(topic.namespace, change)


# One subscription
@carries_out("namespaces.subscription_permissions")
async def subscription_permissions(policies: Policies) -> Mapping[str, Sequence[str]]:
    return policies.auth_policies.subscription_auth_roles


@carries_out("namespaces.grant_subscription")
async def grant_on_subscription(store: Store, subscription: str, roles: list[str]) -> None:
    granted = {subscription: tuple(dict.fromkeys(roles))}

    def change(auth: AuthPolicies) -> AuthPolicies:
        roles_of = {**auth.subscription_auth_roles, **granted}
        return replace(auth, subscription_auth_roles=roles_of)

    await store(_changing(change))


@carries_out("namespaces.revoke_subscription")
async def revoke_on_subscription(store: Store, subscription: str, role: str) -> None:
    await store(_changing(partial(grant_rules.revoke_on_subscription, subscription, role)))


def _changing(change: _Change) -> Change:
    return lambda policies: replace(policies, auth_policies=change(policies.auth_policies))


async def _names_of(owners: TopicSettings, topic: TopicName) -> Sequence[str]:
    """The topic, and every partition when it has some; it must exist, regular or scalable."""
    if topic.is_persistent and await owners.scalable.records.get(topic) is not None:
        return [topic.full]
    metadata = await owners.resources.partitioned.get(topic)
    if metadata is not None:
        partitions = (topic.partition(index) for index in range(metadata.partitions))
        return [topic.full, *(each.full for each in partitions)]
    if owners.config.allowAclChangesOnNonExistentTopics:
        return [topic.full]
    if topic.domain is TopicDomain.TOPIC or not await owners.catalog.topic_exists(topic):
        raise TopicNotFound(f"Topic {topic} not found")
    return [topic.full]
