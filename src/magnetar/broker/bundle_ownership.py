"""Ownership by bundles, for brokers whose messages are in a ledger store that all of them share.

A topic belongs to the bundle that holds the hash of its name, and a bundle to the broker that holds
its record. A bundle without an owner gets one when a client asks: the leader chooses it by load.
Brokers ask each other by records too (`broker/bundle_record.py`), so that they need no other way to
reach each other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from magnetar.broker.broker_directory import BrokerDirectory
from magnetar.broker.bundle_lock import BundleLocks
from magnetar.broker.bundle_record import (
    OWNERS,
    BundleAction,
    BundleRequest,
    bundle_at,
    make_owner,
    with_internal,
)
from magnetar.broker.bundle_request import BundleRequests, OwnerWaits
from magnetar.broker.ownership import Location, Owner
from magnetar.errors import (
    LockBusy,
    NoOwner,
    ServiceNotReady,
)
from magnetar.metadata.store import Change, ChangeKind, MetadataStore
from magnetar.model.name import NamespaceName, TopicName
from magnetar.rules.bundle import Bundle, bundle_of, full_bundle, ranges_of
from magnetar.rules.system import SYSTEM_NAMESPACE, SYSTEM_TENANT
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_ATTEMPTS: Final = 5
_SLA_TENANT: Final = "sla-monitor"

_log = Logger(__name__)


class BundleOwnership:
    """`boundaries` tells where a namespace is cut; None when there is no such namespace. `choose`
    names the broker that should own a bundle, as the leader of the cluster sees it;
    `choose_for_idle` a better one for a bundle that has an owner and nothing in it.
    """

    is_shared = True

    def __init__(
        self,
        store: MetadataStore,
        me: Owner,
        directory: BrokerDirectory,
        *,
        clock: Clock,
        boundaries: Callable[[NamespaceName], Awaitable[tuple[str, ...] | None]],
        choose: Callable[[Bundle], Awaitable[str | None]],
        choose_for_idle: Callable[[Bundle, str], Awaitable[str | None]],
    ) -> None:
        self.me: Final = with_internal(me)
        self.directory: Final = directory
        self.is_leaving = False
        """Whether this broker takes no more bundles: it is about to stop."""
        self.on_request: Callable[[Bundle, BundleRequest], Awaitable[None]] | None = None
        """Carries out what is asked of a bundle that is owned here."""
        self._store = store
        self._clock = clock
        self._boundaries = boundaries
        self.choose: Final = choose
        self.choose_for_idle: Final = choose_for_idle
        self._scope = TaskScope("bundles")
        self._listeners: list[Callable[[Bundle], None]] = []
        self._unloading: set[Bundle] = set()
        self._coming: set[Bundle] = set()
        """What another broker is about to hand over to this one."""
        self.locks: Final = BundleLocks(
            store, self.me, clock=clock, scope=self._scope, on_lost=self._on_lost
        )
        self.requests: Final = BundleRequests(store, self._scope, self._meet, clock=clock)
        self._waits = OwnerWaits(store, clock=clock)
        self._cancel = store.watch(OWNERS, self._on_owner)

    # ------------------------------------------------------------------ asking

    async def bundle_of(self, topic: TopicName) -> Bundle | None:
        """None for a topic of a namespace that does not exist."""
        namespace = topic.namespace
        if broker_of(namespace) is not None:
            return full_bundle(namespace)
        boundaries = await self._boundaries(namespace)
        return None if boundaries is None else Bundle(namespace, bundle_of(topic, boundaries))

    async def owner_of(self, topic: TopicName) -> Owner:
        bundle = await self.bundle_of(topic)
        if bundle is None:
            return self.me
        return await self.owner_of_bundle(bundle)

    async def owner_of_bundle(self, bundle: Bundle) -> Owner:
        """A bundle without an owner gets one."""
        for _ in range(_ATTEMPTS):
            owner = await self.find_owner(bundle)
            if owner is not None:
                return owner
            if await self._assign(bundle):
                return self.me
        raise NoOwner(f"Bundle {bundle} gets no owner at present; try again")

    async def find_owner(self, bundle: Bundle) -> Owner | None:
        """The owner, when there is one. Raise NoOwner while it gives the bundle up."""
        if bundle in self._unloading:
            raise NoOwner(f"Namespace bundle {bundle} is being unloaded")
        if bundle in self.locks:
            return self.me
        record = await self.locks.load(bundle)
        if record is None:
            return None
        if self.locks.is_own(record):
            # Of a session that ended, or the answer to the write was lost.
            return self.me if await self._try_acquire(bundle) else None
        if record.disabled:
            raise NoOwner(f"Namespace bundle {bundle} is being unloaded")
        return make_owner(record)

    async def require(self, topic: TopicName) -> Owner:
        bundle = await self.bundle_of(topic)
        if bundle is None or self._serves(bundle):
            return self.me
        waiting = self._waits.begin(bundle)
        if await self._is_coming(bundle) and not self._serves(bundle):
            await self._waits.wait(bundle, waiting)
            await self.locks.await_change(bundle)
        else:
            self._waits.end(bundle, waiting)
        if self._serves(bundle):
            return self.me
        # What was given up for lost, while ZooKeeper was away, is this broker's still if ZooKeeper
        # kept the session: the record sends every client here.
        is_staying = bundle not in self._unloading and not self.is_leaving
        if is_staying and await self.find_owner(bundle) is self.me:
            return self.me
        raise ServiceNotReady(
            f"Namespace bundle ({bundle}) for topic ({topic}) not served by this"
            f" instance:{self.me.broker_id}. Please redo the lookup."
        )

    async def locate(self, topic: TopicName, *, is_authoritative: bool) -> Location:
        bundle = await self.bundle_of(topic)
        if bundle is None:
            return Location(self.me, is_redirect=False)
        for _ in range(_ATTEMPTS):
            owner = await self.find_owner(bundle)
            if owner is not None:
                return Location(owner, is_redirect=False)
            if is_authoritative and not self.is_leaving:
                if await self._try_acquire(bundle):
                    return Location(self.me, is_redirect=False)
                continue
            leader = await self._other_leader()
            if leader is not None and broker_of(bundle.namespace) is None:
                return Location(leader, is_redirect=True, is_authoritative=False)
            chosen = await self._choose_peer(bundle)
            if chosen.is_self:
                if await self._try_acquire(bundle):
                    return Location(self.me, is_redirect=False)
                continue
            return Location(chosen, is_redirect=True, is_authoritative=True)
        raise NoOwner(f"Bundle {bundle} changes its owner; try again")

    def listen(self, listener: Callable[[Bundle], None]) -> None:
        self._listeners.append(listener)

    @property
    def bundles(self) -> Collection[Bundle]:
        """Those that are owned here."""
        return self.locks.bundles

    @property
    def is_leader(self) -> bool:
        return self.directory.leader == self.me.broker_id

    # ------------------------------------------------------------------ moving

    async def hand_over(
        self, bundle: Bundle, target: Owner | None, close: Callable[[], Awaitable[None]]
    ) -> None:
        """Give a bundle up that is owned here: topics close, then the record goes, then the target
        takes it. Lookups are refused meanwhile; the clients that come to the target wait there.
        Where the target is this broker the topics are loaded again, and the bundle stays.
        """
        if bundle not in self.locks or bundle in self._unloading:
            return
        if target is not None and target.is_self:
            await close()
            return
        self._unloading.add(bundle)
        try:
            if target is not None:
                request = BundleRequest(action=BundleAction.OWN, brokerId=target.broker_id)
                await self.requests.put(bundle, request)
            await close()
            waiting = self._waits.begin(bundle)
            await self.locks.release(bundle)
        finally:
            self._unloading.discard(bundle)
        if target is None:
            self._waits.end(bundle, waiting)
        else:
            await self._waits.wait(bundle, waiting)

    async def close(self) -> None:
        self._cancel()
        self.requests.close()
        self.locks.close()
        await self._scope.close()
        self._waits.close()

    # ------------------------------------------------------------------ assigning

    async def _assign(self, bundle: Bundle) -> bool:
        """See to it that a bundle gets an owner; return whether it is this broker."""
        leader = await self._other_leader()
        if leader is not None and broker_of(bundle.namespace) is None:
            request = BundleRequest(action=BundleAction.OWN)
        else:
            chosen = await self._choose_peer(bundle)
            if chosen.is_self:
                return await self._try_acquire(bundle)
            request = BundleRequest(action=BundleAction.OWN, brokerId=chosen.broker_id)
        waiting = self._waits.begin(bundle)
        await self.requests.put(bundle, request)
        await self._waits.wait(bundle, waiting)
        return False

    async def _other_leader(self) -> Owner | None:
        """The broker that leads, unless it is this one, or is not known, or not registered."""
        leader = self.directory.leader
        if leader is None or leader == self.me.broker_id:
            return None
        return await self.directory.find(leader)

    async def _choose_peer(self, bundle: Bundle) -> Owner:
        """The broker that should own the bundle; raise ServiceNotReady when none may."""
        chosen = broker_of(bundle.namespace) or await self.choose(bundle)
        if chosen == self.me.broker_id:
            return self.me
        found = None if chosen is None else await self.directory.find(chosen)
        if found is None:
            raise ServiceNotReady(f"No broker is available for bundle {bundle}")
        return found

    async def _try_acquire(self, bundle: Bundle) -> bool:
        if self.is_leaving:
            raise ServiceNotReady("The broker is closing")
        if broker_of(bundle.namespace) is None:
            boundaries = await self._boundaries(bundle.namespace)
            if boundaries is None or bundle.range not in ranges_of(boundaries):
                raise NoOwner(f"{bundle} is not a bundle of its namespace any more; ask again")
        try:
            await self.locks.acquire(bundle)
        except LockBusy:
            return False
        return True

    # ------------------------------------------------------------------ requests

    def _serves(self, bundle: Bundle) -> bool:
        return bundle in self.locks and bundle not in self._unloading

    def _is_for_me(self, request: BundleRequest) -> bool:
        return request.action is BundleAction.OWN and request.brokerId == self.me.broker_id

    async def _is_coming(self, bundle: Bundle) -> bool:
        """Whether this broker was asked to own the bundle and will, in a moment."""
        if bundle in self._coming:
            return True
        found = await self.requests.load(bundle)
        return found is not None and self._is_for_me(found)

    async def _meet(self, bundle: Bundle, request: BundleRequest) -> None:
        is_owner = bundle in self.locks
        if self._is_for_me(request):
            self._coming.add(bundle)
            if is_owner or await self._try_acquire(bundle):
                await self._forget(bundle)
            return
        self._coming.discard(bundle)
        if is_owner:
            await self._meet_as_owner(bundle, request)
        elif self.is_leader and not request.brokerId:
            has_owner = await self.locks.load(bundle) is not None
            if has_owner == (request.action is BundleAction.OWN):
                await self._forget(bundle)  # it has what it asks for, or no owner to ask
            elif not has_owner:
                await self._assign_as_leader(bundle)

    async def _meet_as_owner(self, bundle: Bundle, request: BundleRequest) -> None:
        if request.action is BundleAction.OWN and not request.brokerId:
            await self._forget(bundle)  # it has an owner
        elif bundle not in self._unloading and self.on_request is not None:
            try:
                await self.on_request(bundle, request)
            finally:
                if request.action is not BundleAction.OWN:
                    await self._forget(bundle)

    async def _assign_as_leader(self, bundle: Bundle) -> None:
        chosen = await self._choose_peer(bundle)
        if not chosen.is_self:
            request = BundleRequest(action=BundleAction.OWN, brokerId=chosen.broker_id)
            await self.requests.put(bundle, request)
        elif await self._try_acquire(bundle):
            await self._forget(bundle)

    async def _forget(self, bundle: Bundle) -> None:
        self._coming.discard(bundle)
        await self.requests.remove(bundle)

    # ------------------------------------------------------------------ changes

    def _on_lost(self, bundle: Bundle) -> None:
        for listener in self._listeners:
            listener(bundle)

    def _on_owner(self, change: Change) -> None:
        bundle = bundle_at(change.path, OWNERS)
        if change.kind is ChangeKind.DELETED and bundle is not None and bundle in self._coming:
            self.requests.look(bundle)


def broker_of(namespace: NamespaceName) -> str | None:
    """The broker in whose namespace only it may serve: that of its health check."""
    is_heartbeat = namespace.tenant == SYSTEM_TENANT and namespace != SYSTEM_NAMESPACE
    is_named = is_heartbeat or namespace.tenant == _SLA_TENANT
    return namespace.local if is_named and ":" in namespace.local else None
