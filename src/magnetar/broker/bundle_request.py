"""What brokers ask of each other about bundles, by records that all of them follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from magnetar.broker.bundle_record import (
    OWNERS,
    REQUESTS,
    BundleRequest,
    bundle_at,
    decode_request,
    owner_path,
    request_path,
)
from magnetar.broker.keyed_lock import KeyedLock
from magnetar.errors import BrokerError, NoOwner, RecordNotFound
from magnetar.metadata.store import ANY_VERSION, Change, ChangeKind, MetadataStore, SessionEvent
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_MET_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05
_TAKEN_S_MAX: Final = 5.0
"""How long a call waits for another broker to take a bundle."""

_log = Logger(__name__)


class BundleRequests:
    """`meet` does what a request asks of this broker, if anything; one at a time for a bundle."""

    def __init__(
        self,
        store: MetadataStore,
        scope: TaskScope,
        meet: Callable[[Bundle, BundleRequest], Awaitable[None]],
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._scope = scope
        self._meet = meet
        self._clock = clock
        self._meeting = KeyedLock()
        self._cancels = (
            store.watch(REQUESTS, self._on_change),
            store.watch_session(self._on_session),
        )

    async def put(self, bundle: Bundle, request: BundleRequest) -> None:
        """Ask the brokers for something; the last request for a bundle counts."""
        value = msgspec.json.encode(request)
        await self._store.put(request_path(bundle), value, expect=ANY_VERSION, ephemeral=True)

    async def load(self, bundle: Bundle) -> BundleRequest | None:
        path = request_path(bundle)
        record = await self._store.get(path)
        return None if record is None else decode_request(path, record.value)

    async def remove(self, bundle: Bundle) -> None:
        """It was met, or cannot be."""
        try:
            await self._store.delete(request_path(bundle), expect=ANY_VERSION)
        except RecordNotFound:
            pass

    async def wait_done(self, bundle: Bundle) -> None:
        """Return when the request for a bundle was met; raise NoOwner when it is not in time."""
        try:
            async with self._clock.timeout(_MET_S_MAX):
                while await self.load(bundle) is not None:
                    await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            raise NoOwner(f"The owner of bundle {bundle} does not give it up in time") from None

    def look(self, bundle: Bundle) -> None:
        """Something has changed that a request for the bundle may wait for."""
        if not self._scope.is_closed:
            self._scope.start(self._answer(bundle), name=f"request for {bundle}")

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()

    def _on_session(self, event: SessionEvent) -> None:
        """Of what was asked while the store was away no change tells, and what this broker was at
        may have failed with the connection.
        """
        if event is SessionEvent.RECONNECTED and not self._scope.is_closed:
            self._scope.start(self._look_again(), name="requests for bundles")

    async def _look_again(self) -> None:
        try:
            for tenant in await self._store.children(REQUESTS):
                for namespace in await self._store.children(f"{REQUESTS}/{tenant}"):
                    parent = f"{REQUESTS}/{tenant}/{namespace}"
                    for each in await self._store.children(parent):
                        bundle = bundle_at(f"{parent}/{each}", REQUESTS)
                        if bundle is not None:
                            self.look(bundle)
        except BrokerError as refusal:  # the connection is lost again, and comes back again
            _log.warning("requests not read", reason=refusal.sentence)

    async def _answer(self, bundle: Bundle) -> None:
        try:
            async with self._meeting.hold(str(bundle)):
                request = await self.load(bundle)
                if request is not None:
                    await self._meet(bundle, request)
        except BrokerError as refusal:
            _log.warning("request not met", bundle=str(bundle), reason=refusal.sentence)

    def _on_change(self, change: Change) -> None:
        bundle = bundle_at(change.path, REQUESTS)
        if bundle is not None and change.kind in (ChangeKind.CREATED, ChangeKind.MODIFIED):
            self.look(bundle)


class OwnerWaits:
    """Calls that wait for a bundle to get an owner. A wait begins before the caller looks whether
    there is one, so that none is missed.
    """

    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        """By the path of the owner's record."""
        self._cancels = (
            store.watch(OWNERS, self._on_change),
            store.watch_session(self._on_session),
        )

    def begin(self, bundle: Bundle) -> asyncio.Future[None]:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner_path(bundle), []).append(waiting)
        return waiting

    def end(self, bundle: Bundle, waiting: asyncio.Future[None]) -> None:
        path = owner_path(bundle)
        left = [each for each in self._waiting.pop(path, ()) if each is not waiting]
        if left:
            self._waiting[path] = left

    async def wait(self, bundle: Bundle, waiting: asyncio.Future[None]) -> None:
        """Return when the bundle got an owner since `begin`, or after a while."""
        try:
            async with self._clock.timeout(_TAKEN_S_MAX):
                await waiting
        except TimeoutError:
            _log.warning("no broker took a bundle in time", bundle=str(bundle))
        finally:
            self.end(bundle, waiting)

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        for waiting in self._waiting.values():
            for each in waiting:
                each.cancel()

    def _on_change(self, change: Change) -> None:
        if change.kind is ChangeKind.CREATED:
            self._end_all(change.path)

    def _on_session(self, event: SessionEvent) -> None:
        """An owner may have come while the store was away: those who wait look again."""
        if event is SessionEvent.RECONNECTED:
            for path in tuple(self._waiting):
                self._end_all(path)

    def _end_all(self, path: str) -> None:
        for waiting in self._waiting.pop(path, ()):
            if not waiting.done():
                waiting.set_result(None)
