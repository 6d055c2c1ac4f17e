"""Topic policies as records of the metadata stores.

Local ones stand in the cluster's own store, global ones in the store that clusters share. There is
no log to replay: a record is read when a topic needs it, and again when the store tells of a
change.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import structs

from magnetar.broker.resource import Resources, document_cache
from magnetar.broker.topicpolicy.contract import (
    Listeners,
    PolicyChange,
    PolicyUpdate,
    TopicPoliciesService,
    TopicPolicyListener,
)
from magnetar.errors import (
    InvalidName,
    RecordNotFound,
    RecordUnreadable,
    StoreClosed,
    StoreUnavailable,
)
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.policy import TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope

if TYPE_CHECKING:
    from magnetar.broker.service import Service

TOPIC_POLICIES: Final = "/admin/topic-policies"
LOCAL: Final = f"{TOPIC_POLICIES}/local"
GLOBAL: Final = f"{TOPIC_POLICIES}/global"
_DELIVERY_S_MAX: Final = 10.0

_log = Log(__name__)


def topic_policies_path(name: TopicName, *, is_global: bool) -> str:
    base = policy_name(name)
    root = GLOBAL if is_global else LOCAL
    return f"{root}/{base.namespace}/{base.domain.value}/{base.encoded_local}"


class MetadataStoreTopicPolicies(TopicPoliciesService):
    name = "metadata-store"

    def __init__(self, resources: Resources, *, clock: Clock) -> None:
        self._resources = resources
        self._local = document_cache(resources.local, LOCAL, TopicPolicies, clock=clock)
        self._global = document_cache(resources.configuration, GLOBAL, TopicPolicies, clock=clock)
        self._listeners = Listeners()
        self._told: dict[tuple[TopicName, bool], None] = {}
        """Changes the stores told of that listeners were not told of yet, in order."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._scope = TaskScope("topic policies")
        self._cancels: tuple[Cancel, ...] = ()
        self._closed = False

    def start(self, service: Service) -> None:
        local, configuration = self._resources.local, self._resources.configuration
        self._cancels = (
            local.watch(LOCAL, lambda change: self._on_record(change, is_global=False)),
            configuration.watch(GLOBAL, lambda change: self._on_record(change, is_global=True)),
            local.watch_session(lambda event: self._on_session(event, is_global=False)),
            configuration.watch_session(lambda event: self._on_session(event, is_global=True)),
        )

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        if self._closed:
            return None
        cache = self._global if is_global else self._local
        found = await cache.get(topic_policies_path(topic, is_global=is_global))
        # What a record says about its scope does not count: its place does.
        return None if found is None else structs.replace(found, isGlobal=is_global)

    async def update(
        self,
        topic: TopicName,
        change: PolicyChange,
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        def change_present(present: TopicPolicies | None) -> TopicPolicies:
            if present is None and skip_if_absent:
                raise RecordNotFound(f"{topic} has no policies")
            return structs.replace(change(present or TopicPolicies()), isGlobal=is_global)

        self._check_open()
        cache = self._global if is_global else self._local
        path = topic_policies_path(topic, is_global=is_global)
        try:
            await cache.read_modify_update_or_create(path, change_present)
        except RecordNotFound:
            return
        await self._delivered()

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        self._check_open()
        for is_global in (False,) if keep_global else (False, True):
            cache = self._global if is_global else self._local
            try:
                await cache.delete(topic_policies_path(topic, is_global=is_global))
            except RecordNotFound:
                pass
        await self._delivered()

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        await self._resources.local.delete_recursive(f"{LOCAL}/{namespace}")
        await self._resources.configuration.delete_recursive(f"{GLOBAL}/{namespace}")
        await self._delivered()

    async def count(self, namespace: NamespaceName) -> int:
        """How many records the namespace has in both scopes."""
        found = 0
        for store, root in (
            (self._resources.local, LOCAL),
            (self._resources.configuration, GLOBAL),
        ):
            for domain in await store.children(f"{root}/{namespace}"):
                found += len(await store.children(f"{root}/{namespace}/{domain}"))
        return found

    def register_listener(self, topic: TopicName, listener: TopicPolicyListener) -> bool:
        self._listeners.add(policy_name(topic), listener)
        return True

    def unregister_listener(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        self._listeners.discard(policy_name(topic), listener)

    async def settle(self) -> None:
        await self._delivered()

    async def close(self) -> None:
        self._closed = True
        for cancel in self._cancels:
            cancel()
        await self._scope.close()
        self._local.close()
        self._global.close()
        self._listeners.clear()
        self._told.clear()
        self._idle.set()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("The topic policies are closed")

    # ------------------------------------------------------------------ what the stores tell

    def _on_record(self, change: Change, *, is_global: bool) -> None:
        if change.kind is ChangeKind.CHILDREN_CHANGED:
            return
        topic = _topic_at(change.path)
        if topic is not None:
            self._mark(topic, is_global=is_global)

    def _on_session(self, event: SessionEvent, *, is_global: bool) -> None:
        if event is SessionEvent.RECONNECTED:  # what changed meanwhile was not told
            for topic in self._listeners.topics():
                self._mark(topic, is_global=is_global)

    def _mark(self, topic: TopicName, *, is_global: bool) -> None:
        if self._closed or topic not in self._listeners:
            return
        self._told[topic, is_global] = None
        if self._idle.is_set():
            self._idle.clear()
            self._scope.start(self._deliver(), "deliver")

    async def _deliver(self) -> None:
        """Read after each notice, then tell: what listeners hear is never older than the notice."""
        backoff = Backoff(0.1, 5.0)
        try:
            while self._told:
                topic, is_global = next(iter(self._told))
                del self._told[topic, is_global]
                try:
                    policies = await self.get(topic, is_global=is_global)
                except StoreUnavailable:
                    self._told[topic, is_global] = None
                    await asyncio.sleep(backoff.next_s())
                except RecordUnreadable as error:
                    _log.error("policies stay as they were", error=error, topic=str(topic))
                except StoreClosed:
                    self._told.clear()
                else:
                    backoff.reset()
                    self._listeners.tell(PolicyUpdate(topic, is_global, policies))
        finally:
            self._idle.set()

    async def _delivered(self) -> None:
        try:
            async with asyncio.timeout(_DELIVERY_S_MAX):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("policies are written, and told when the store answers again")


def _topic_at(path: str) -> TopicName | None:
    parts = path.split("/")
    if len(parts) != 8:
        return None
    try:
        namespace, domain = NamespaceName(parts[4], parts[5]), TopicDomain(parts[6])
        return TopicName(domain, namespace, decode_local(parts[7]))
    except (InvalidName, ValueError):
        return None  # not a topic's record
