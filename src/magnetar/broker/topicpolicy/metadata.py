"""Topic policies as records of the metadata stores.

Local ones stand in the cluster's own store, global ones in the store that clusters share. There is
no log to replay: a record is read when a topic needs it, and again when the store notifies of a
change.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from magnetar.broker.resource import Resources, document_cache
from magnetar.broker.topicpolicy.contract import PolicyChange, PolicyHost, TopicPoliciesService
from magnetar.errors import InvalidName, RecordNotFound
from magnetar.metadata.cache import MetadataCache
from magnetar.metadata.store import Cancel, Change, ChangeKind, MetadataStore, SessionEvent
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.policy import TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.runtime.clock import Clock

TOPIC_POLICIES: Final = "/admin/topic-policies"
LOCAL: Final = f"{TOPIC_POLICIES}/local"
GLOBAL: Final = f"{TOPIC_POLICIES}/global"


def topic_policies_path(name: TopicName, *, is_global: bool) -> str:
    base = policy_name(name)
    root = GLOBAL if is_global else LOCAL
    return f"{root}/{base.namespace}/{base.domain.value}/{base.encoded_local}"


@dataclass(frozen=True, slots=True)
class _Scope:
    store: MetadataStore
    root: str
    records: MetadataCache[TopicPolicies]


class MetadataStoreTopicPolicies(TopicPoliciesService):
    name = "metadata-store"

    def __init__(self, resources: Resources, *, clock: Clock) -> None:
        self._scopes = [
            _Scope(store, root, document_cache(store, root, TopicPolicies, clock=clock))
            for store, root in ((resources.local, LOCAL), (resources.configuration, GLOBAL))
        ]
        self._cancels: list[Cancel] = []

    def start(self, host: PolicyHost) -> None:
        for scope in self._scopes:
            self._cancels.append(scope.store.watch(scope.root, self._on_record))
            self._cancels.append(scope.store.watch_session(self._on_session))

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        records = self._scopes[is_global].records
        found = await records.get(topic_policies_path(topic, is_global=is_global))
        # What a record says about its scope does not count: its place does.
        return None if found is None else structs.replace(found, isGlobal=is_global)

    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        path = topic_policies_path(topic, is_global=is_global)
        await self._scopes[is_global].records.read_modify_update_or_create(path, change)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        for is_global in (False,) if keep_global else (False, True):
            path = topic_policies_path(topic, is_global=is_global)
            with suppress(RecordNotFound):
                await self._scopes[is_global].records.delete(path)

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        for scope in self._scopes:
            await scope.store.delete_recursive(f"{scope.root}/{namespace}")

    async def count(self, namespace: NamespaceName) -> int:
        """How many records the namespace has in both scopes."""
        found = 0
        for scope in self._scopes:
            parent = f"{scope.root}/{namespace}"
            for domain in await scope.store.children(parent):
                found += await scope.store.count_children(f"{parent}/{domain}")
        return found

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        for scope in self._scopes:
            scope.records.close()

    def _on_record(self, change: Change) -> None:
        topic = _topic_at(change.path)
        if topic is not None and change.kind is not ChangeKind.CHILDREN_CHANGED:
            self.notify(topic)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # changes made meanwhile were not notified
            self.notify(None)


def _topic_at(path: str) -> TopicName | None:
    parts = path.split("/")
    if len(parts) != 8:
        return None
    try:
        namespace, domain = NamespaceName(parts[4], parts[5]), TopicDomain(parts[6])
        return TopicName(domain, namespace, decode_local(parts[7]))
    except (InvalidName, ValueError):
        return None  # not a topic's record
