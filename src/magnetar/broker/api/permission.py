"""Who may do what: kept in the namespace's policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from magnetar.broker.api.record import load_policies, store_policies
from magnetar.errors import TopicNotFound
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_stored_topic,
    parse_topic,
)
from magnetar.model.permission import AuthAction
from magnetar.model.policy import AuthPolicies, Policies, TopicGrant, TopicRevocation
from magnetar.rules.permission import is_about, reaching_names

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class PermissionApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def of_namespace(self, namespace: NamespaceName) -> Mapping[str, Sequence[AuthAction]]:
        policies = await load_policies(self._service, namespace)
        return policies.auth_policies.namespace_auth

    async def grant(
        self, namespace: NamespaceName, role: str, actions: Sequence[AuthAction]
    ) -> None:
        def change(policies: Policies) -> Policies:
            auth = policies.auth_policies
            granted = {**auth.namespace_auth, role: _distinct(actions)}
            return _with(policies, replace(auth, namespace_auth=granted))

        await store_policies(self._service, namespace, change)

    async def revoke(self, namespace: NamespaceName, role: str) -> None:
        def change(policies: Policies) -> Policies:
            auth = policies.auth_policies
            kept = {key: value for key, value in auth.namespace_auth.items() if key != role}
            return _with(policies, replace(auth, namespace_auth=kept))

        await store_policies(self._service, namespace, change)

    # One topic
    async def of_topic(self, topic: TopicName) -> Mapping[str, Sequence[AuthAction]]:
        """What is granted on the namespace and on the topic, together."""
        await self._names_of(topic)
        auth = (await load_policies(self._service, topic.namespace)).auth_policies
        found: dict[str, tuple[AuthAction, ...]] = dict(auth.namespace_auth)
        for source in reaching_names(topic):
            for role, actions in auth.destination_auth.get(source, {}).items():
                found[role] = _distinct((*found.get(role, ()), *actions))
        return found

    async def grant_on_topic(
        self, topic: TopicName, role: str, actions: Sequence[AuthAction]
    ) -> None:
        await self.grant_on_topics([TopicGrant(topic=topic.full, role=role, actions=actions)])

    async def revoke_on_topic(self, topic: TopicName, role: str) -> None:
        await self.revoke_on_topics([TopicRevocation(topic=topic.full, role=role)])

    async def grant_on_topics(self, grants: Sequence[TopicGrant]) -> None:
        """All topics must exist; the grants in one namespace come into force together."""
        wanted: dict[NamespaceName, list[tuple[str, TopicGrant]]] = {}
        for grant in grants:
            topic = parse_topic(grant.topic)
            names = await self._names_of(topic)
            wanted.setdefault(topic.namespace, []).extend((name, grant) for name in names)
        for namespace, rows in wanted.items():
            await store_policies(self._service, namespace, partial(_grant_rows, rows))

    async def revoke_on_topics(self, revocations: Sequence[TopicRevocation]) -> None:
        """However a topic was spelled when the permissions were granted, and on its parts."""
        wanted: dict[NamespaceName, list[tuple[TopicName, str]]] = {}
        for revocation in revocations:
            topic = parse_topic(revocation.topic)
            await self._names_of(topic)
            wanted.setdefault(topic.namespace, []).append((topic, revocation.role))
        for namespace, rows in wanted.items():
            await store_policies(self._service, namespace, partial(_revoke_rows, rows))

    async def _names_of(self, topic: TopicName) -> Sequence[str]:
        """The topic, and every partition when it has some; it must exist, regular or scalable."""
        if topic.is_persistent and await self._service.scalable.records.get(topic) is not None:
            return [topic.full]
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is not None:
            partitions = (topic.partition(index) for index in range(metadata.partitions))
            return [topic.full, *(each.full for each in partitions)]
        if self._service.config.allowAclChangesOnNonExistentTopics:
            return [topic.full]
        if topic.domain is TopicDomain.TOPIC or not await self._service.topic_exists(topic):
            raise TopicNotFound(f"Topic {topic} not found")
        return [topic.full]

    # One subscription
    async def of_subscriptions(self, namespace: NamespaceName) -> Mapping[str, Sequence[str]]:
        policies = await load_policies(self._service, namespace)
        return policies.auth_policies.subscription_auth_roles

    async def grant_on_subscription(
        self, namespace: NamespaceName, subscription: str, roles: Sequence[str]
    ) -> None:
        def change(policies: Policies) -> Policies:
            auth = policies.auth_policies
            granted = {**auth.subscription_auth_roles, subscription: tuple(dict.fromkeys(roles))}
            return _with(policies, replace(auth, subscription_auth_roles=granted))

        await store_policies(self._service, namespace, change)

    async def revoke_on_subscription(
        self, namespace: NamespaceName, subscription: str, role: str
    ) -> None:
        def change(policies: Policies) -> Policies:
            auth = policies.auth_policies
            kept = dict(auth.subscription_auth_roles)
            roles = tuple(each for each in kept.pop(subscription, ()) if each != role)
            if roles:
                kept[subscription] = roles
            return _with(policies, replace(auth, subscription_auth_roles=kept))

        await store_policies(self._service, namespace, change)


async def forget_permissions(service: Service, topic: TopicName) -> None:
    """A topic that comes to have the name of one that was deleted is another topic."""

    def change(policies: Policies) -> Policies:
        auth = policies.auth_policies
        kept = {
            name: granted
            for name, granted in auth.destination_auth.items()
            if not is_about(parse_stored_topic(name), topic)
        }
        return _with(policies, replace(auth, destination_auth=kept))

    if await service.resources.namespaces.get(topic.namespace) is not None:
        await service.resources.namespaces.update(topic.namespace, change)


def _grant_rows(rows: Sequence[tuple[str, TopicGrant]], policies: Policies) -> Policies:
    auth = policies.auth_policies
    added: dict[str, dict[str, tuple[AuthAction, ...]]] = {}
    for name, grant in rows:
        added.setdefault(name, {})[grant.role] = _distinct(grant.actions)
    known = auth.destination_auth
    granted = {name: {**known.get(name, {}), **roles} for name, roles in added.items()}
    return _with(policies, replace(auth, destination_auth={**known, **granted}))


def _revoke_rows(rows: Sequence[tuple[TopicName, str]], policies: Policies) -> Policies:
    auth = policies.auth_policies
    wanted: dict[TopicName, set[str]] = {}
    for topic, role in rows:
        wanted.setdefault(topic, set()).add(role)
    by_name = {topic.full: topic for topic in wanted}
    kept: dict[str, dict[str, tuple[AuthAction, ...]]] = {}
    for name, granted in auth.destination_auth.items():
        spelled = parse_stored_topic(name)
        reaching = {spelled.full, *reaching_names(spelled), *reaching_names(spelled.base)}
        topics = [by_name[each] for each in reaching if each in by_name]
        revoked = [wanted[topic] for topic in topics if is_about(spelled, topic)]
        left = {
            role: actions
            for role, actions in granted.items()
            if not any(role in roles for roles in revoked)
        }
        if left:
            kept[name] = left
    return _with(policies, replace(auth, destination_auth=kept))


def _with(policies: Policies, auth: AuthPolicies) -> Policies:
    return replace(policies, auth_policies=auth)


def _distinct(actions: Sequence[AuthAction]) -> tuple[AuthAction, ...]:
    return tuple(dict.fromkeys(actions))
