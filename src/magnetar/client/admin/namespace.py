"""Namespaces: their life, policies, permissions and bundles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from magnetar.client.admin.name import format_namespace
from magnetar.client.admin.policy import (
    NAMESPACE_POLICIES,
    find_policy,
    remove_policy,
    write_policy,
)
from magnetar.client.admin.transport import Document, Grants, Names, Transport, format_path

_ROOT = "admin/v2/namespaces"


class NamespaceAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, tenant: str) -> Names:
        names: Names = self._transport.get(f"{_ROOT}/{format_path(tenant)}")
        return names

    def get(self, namespace: str) -> Document:
        """All policies of the namespace in one object."""
        policies: Document = self._transport.get(_path(namespace))
        return policies

    def create(
        self,
        namespace: str,
        *,
        clusters: Iterable[str] = (),
        bundles: int = 0,
        topic_buckets: int | None = None,
    ) -> None:
        body: Document = {}
        if bundles > 0:
            body["bundles"] = {"numBundles": bundles}
        if topic_buckets is not None:
            body["numberOfTopicBuckets"] = topic_buckets
        named = [*clusters]
        if named:
            body["replication_clusters"] = named
        self._transport.put(_path(namespace), body)

    def topic_buckets(self, namespace: str) -> int:
        """In how many buckets the metadata of its topics is kept."""
        count: int = self._transport.get(_path(namespace, "numberOfTopicBuckets"))
        return count

    def rebucket(self, namespace: str, topic_buckets: int) -> None:
        """Refused, unless it is the number that the namespace was created with."""
        self._transport.post(_path(namespace, "numberOfTopicBuckets"), topic_buckets)

    def delete(self, namespace: str, *, force: bool = False) -> None:
        self._transport.delete(_path(namespace), {"force": force})

    def topics(
        self, namespace: str, *, mode: str | None = None, include_system: bool = False
    ) -> Names:
        query = {"mode": mode, "includeSystemTopic": include_system}
        names: Names = self._transport.get(_path(namespace, "topics"), query)
        return names

    def policy(self, namespace: str, key: str) -> Any:
        """One setting by its name (`retention`, `message-ttl`…); None when unset."""
        policy = find_policy(NAMESPACE_POLICIES, key)
        return self._transport.get(f"{_path(namespace)}/{policy.reading}")

    def set_policy(self, /, namespace: str, key: str, value: Any, **query: Any) -> None:
        policy = find_policy(NAMESPACE_POLICIES, key)
        write_policy(self._transport, _path(namespace), policy, value, query)

    def remove_policy(self, /, namespace: str, key: str, **query: Any) -> None:
        policy = find_policy(NAMESPACE_POLICIES, key)
        remove_policy(self._transport, _path(namespace), policy, query)

    def permissions(self, namespace: str) -> Grants:
        granted: Grants = self._transport.get(_path(namespace, "permissions")) or {}
        return granted

    def grant(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        self._transport.post(_path(namespace, "permissions", role), [*actions])

    def revoke(self, namespace: str, role: str) -> None:
        self._transport.delete(_path(namespace, "permissions", role))

    def subscription_permissions(self, namespace: str) -> Grants:
        """The roles that each subscription is kept for; one that is not named is for everybody."""
        kept: Grants = self._transport.get(_path(namespace, "permissions", "subscription")) or {}
        return kept

    def grant_subscription(self, namespace: str, subscription: str, roles: Iterable[str]) -> None:
        path = _path(namespace, "permissions", "subscription", subscription)
        self._transport.post(path, [*roles])

    def revoke_subscription(self, namespace: str, subscription: str, role: str) -> None:
        self._transport.delete(_path(namespace, "permissions", subscription, role))

    def properties(self, namespace: str) -> dict[str, str]:
        found: dict[str, str] = self._transport.get(_path(namespace, "properties")) or {}
        return found

    def set_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        self._transport.put(_path(namespace, "properties"), dict(properties))

    def clear_properties(self, namespace: str) -> None:
        self._transport.delete(_path(namespace, "properties"))

    def property(self, namespace: str, key: str) -> str | None:
        value: str | None = self._transport.get(_path(namespace, "property", key))
        return value

    def set_property(self, namespace: str, key: str, value: str) -> None:
        self._transport.put(_path(namespace, "property", key, value))

    def remove_property(self, namespace: str, key: str) -> None:
        self._transport.delete(_path(namespace, "property", key))

    def bundles(self, namespace: str) -> Document:
        found: Document = self._transport.get(_path(namespace, "bundles"))
        return found

    def unload(
        self, namespace: str, *, bundle: str | None = None, destination: str | None = None
    ) -> None:
        parts = ("unload",) if bundle is None else (bundle, "unload")
        self._transport.put(_path(namespace, *parts), query={"destinationBroker": destination})

    def split_bundle(
        self, namespace: str, bundle: str, *, unload: bool = False, algorithm: str | None = None
    ) -> None:
        query = {"unload": unload, "splitAlgorithmName": algorithm}
        self._transport.put(_path(namespace, bundle, "split"), query=query)

    def clear_backlog(
        self, namespace: str, *, subscription: str | None = None, bundle: str | None = None
    ) -> None:
        parts = [*_some(bundle), "clearBacklog", *_some(subscription)]
        self._transport.post(_path(namespace, *parts))

    def unsubscribe(self, namespace: str, subscription: str, *, bundle: str | None = None) -> None:
        parts = [*_some(bundle), "unsubscribe", subscription]
        self._transport.post(_path(namespace, *parts))


def _path(namespace: str, *rest: str) -> str:
    return f"{_ROOT}/{format_namespace(namespace, *rest)}"


def _some(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)
