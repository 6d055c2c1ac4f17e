"""The bundles that this broker owns: one ephemeral record each, as brokers of Pulsar keep them.

A record says who should serve; it does not stop one whose session ended and who does not know yet.
What must not be written twice is fenced by the ledgers and the records of the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from magnetar.broker.bundle_record import (
    OWNERS,
    OwnerRecord,
    decode_owner,
    encode_owner,
    owner_path,
)
from magnetar.broker.keyed_lock import KeyedLock
from magnetar.broker.ownership import Owner
from magnetar.errors import LockBusy, RecordNotFound, VersionConflict
from magnetar.metadata.store import ABSENT, Change, ChangeKind, MetadataStore, SessionEvent
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)


class BundleLocks:
    """`on_lost` is called for each bundle that is no longer owned here and was not released.

    A session that ended ends all of them: others may own them from that moment on. They are not
    taken again before a client asks for them.
    """

    def __init__(
        self,
        store: MetadataStore,
        me: Owner,
        *,
        clock: Clock,
        scope: TaskScope,
        on_lost: Callable[[Bundle], None],
    ) -> None:
        self.me: Final = me
        self._store = store
        self._value = encode_owner(me)
        self._urls = decode_owner("", self._value).urls
        self._on_lost = on_lost
        self._held: dict[Bundle, int] = {}
        """With the version of the record."""
        self._by_path: dict[str, Bundle] = {}
        self._changing = KeyedLock()
        self._session = 0
        """Counts the sessions: what was written in an earlier one is not owned."""
        self._reconciler = Reconciler(scope, "revalidate bundles", self._revalidate, clock=clock)
        self._cancels = (
            store.watch(OWNERS, self._on_change),
            store.watch_session(self._on_session),
        )

    def __contains__(self, bundle: Bundle) -> bool:
        return bundle in self._held

    @property
    def bundles(self) -> Collection[Bundle]:
        return tuple(self._held)

    async def load(self, bundle: Bundle) -> OwnerRecord | None:
        """Who owns the bundle, as the store says."""
        path = owner_path(bundle)
        record = await self._store.get(path)
        return None if record is None else decode_owner(path, record.value)

    async def await_change(self, bundle: Bundle) -> None:
        """Return when no change of the bundle is under way."""
        await self._changing.wait(str(bundle))

    async def acquire(self, bundle: Bundle) -> None:
        """Own the bundle; raise LockBusy when another broker does."""
        async with self._changing.hold(str(bundle)):
            if bundle not in self._held and not await self._create(bundle):
                await self._take(bundle)

    async def release(self, bundle: Bundle) -> None:
        """Give the bundle up; one that is not owned here stays as it is."""
        async with self._changing.hold(str(bundle)):
            version = self._drop(bundle)
            if version is None:
                return
            try:
                await self._store.delete(owner_path(bundle), expect=version)
            except (RecordNotFound, VersionConflict):
                pass  # gone, or another's by now

    def close(self) -> None:
        """Follow the store no longer; what is still owned ends with the session."""
        for cancel in self._cancels:
            cancel()
        self._reconciler.close()

    def is_own(self, record: OwnerRecord) -> bool:
        """Whether the record is of this broker: of this session, or of one that ends soon."""
        return record.urls == self._urls

    def _drop(self, bundle: Bundle) -> int | None:
        self._by_path.pop(owner_path(bundle), None)
        return self._held.pop(bundle, None)

    async def _take(self, bundle: Bundle) -> None:
        """Make the record ours, or raise LockBusy."""
        path, session = owner_path(bundle), self._session
        found = await self._store.get(path)
        if found is not None:
            if not found.stat.ephemeral or not self.is_own(decode_owner(path, found.value)):
                raise LockBusy(f"Bundle {bundle} is owned by another broker")
            if found.stat.created_by_self:
                self._note(bundle, found.stat.version, session)
                return
            try:  # of an earlier session of this address, which ends at any moment
                await self._store.delete(path, expect=found.stat.version)
            except RecordNotFound:
                pass
            except VersionConflict:
                raise LockBusy(f"Bundle {bundle} changed while it was taken") from None
        if not await self._create(bundle):
            raise LockBusy(f"Bundle {bundle} was taken by another broker")

    async def _create(self, bundle: Bundle) -> bool:
        """Make the record where there is none."""
        path, session = owner_path(bundle), self._session
        try:
            stat = await self._store.put(path, self._value, expect=ABSENT, ephemeral=True)
        except VersionConflict:
            return False
        self._note(bundle, stat.version, session)
        return True

    def _note(self, bundle: Bundle, version: int, session: int) -> None:
        if session != self._session:
            raise LockBusy(f"The session ended while bundle {bundle} was taken")
        self._held[bundle] = version
        self._by_path[owner_path(bundle)] = bundle

    async def _revalidate(self) -> None:
        """A record that was deleted is made again; one that another broker has is lost."""
        for bundle in self.bundles:
            async with self._changing.hold(str(bundle)):
                if bundle not in self._held:
                    continue
                try:
                    await self._take(bundle)
                except LockBusy as refusal:
                    self._drop(bundle)
                    _log.warning("bundle lost", bundle=str(bundle), reason=refusal.sentence)
                    self._on_lost(bundle)

    def _on_change(self, change: Change) -> None:
        if change.kind is ChangeKind.DELETED and change.path in self._by_path:
            self._reconciler.request()

    def _on_session(self, event: SessionEvent) -> None:
        match event:
            case SessionEvent.SESSION_LOST | SessionEvent.SESSION_REESTABLISHED:
                self._session += 1
                lost, self._held, self._by_path = self.bundles, {}, {}
                if lost:
                    _log.warning("session ended: bundles are given up", bundles=len(lost))
                for bundle in lost:
                    self._on_lost(bundle)
            case SessionEvent.RECONNECTED:
                self._reconciler.request()
            case SessionEvent.CONNECTION_LOST:
                pass  # the session lives on: what is loaded is served
