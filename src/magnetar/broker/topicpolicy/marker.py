"""Which namespaces have `__change_events`, remembered until one comes or goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from magnetar.errors import InvalidName
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.chain_path import CHAINS, without_bucket
from magnetar.model.name import NamespaceName
from magnetar.rules.system import CHANGE_EVENTS, change_events_of

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_NAMES: Final = (CHANGE_EVENTS, f"{CHANGE_EVENTS}-partition-0")
"""Partition 0 counts: what says how many partitions there are may outlive them in a cluster."""
_REMEMBERED_MAX: Final = 100_000

MarkerListener = Callable[[NamespaceName, bool], None]
"""Told the namespace, and whether a system topic of it is certainly gone."""


class Markers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[NamespaceName, bool] = {}
        self._changes = 0
        self._listeners: list[MarkerListener] = []
        store = service.store
        self._cancels: tuple[Cancel, ...] = (
            store.watch(CHAINS, self._on_change),
            store.watch_session(self._on_session),
        )

    def listen(self, listener: MarkerListener) -> None:
        """Call the listener when a namespace's `__change_events` may have come or gone."""
        self._listeners.append(listener)

    async def has(self, namespace: NamespaceName) -> bool:
        """Both answers are remembered; a look that failed is not."""
        known = self._known.get(namespace)
        while known is None:
            seen = self._changes
            name = change_events_of(namespace)
            known = await self._service.topic_exists(name) or (
                await self._service.topic_exists(name.partition(0))
            )
            if seen != self._changes:
                known = None  # one came or went meanwhile, maybe this one
        if len(self._known) >= _REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        self._known[namespace] = known
        return known

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._listeners.clear()

    def _on_change(self, change: Change) -> None:
        if change.kind not in (ChangeKind.CREATED, ChangeKind.DELETED):
            return
        if not change.path.endswith(_NAMES):
            return
        # /managed-ledgers/tenant/namespace/persistent/name; what stands deeper is a cursor
        parts = without_bucket(change.path).split("/")
        if len(parts) != 6 or parts[4] != "persistent" or parts[5] not in _NAMES:
            return
        try:
            namespace = NamespaceName(parts[2], parts[3])
        except InvalidName:
            return
        self._forget(namespace, gone=change.kind is ChangeKind.DELETED)

    def _forget(self, namespace: NamespaceName, *, gone: bool) -> None:
        self._changes += 1
        self._known.pop(namespace, None)
        for listener in self._listeners:
            listener(namespace, gone)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # what came or went meanwhile was not told
            for namespace in tuple(self._known):
                self._forget(namespace, gone=False)
