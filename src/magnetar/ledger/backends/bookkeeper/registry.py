"""Which bookies there are, where they listen, on which racks they stand, and which just failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from magnetar.errors import BrokerError
from magnetar.metadata.store import Change, MetadataStore, SessionEvent
from magnetar.model.bookie import BOOKIES, BookieInfo
from magnetar.model.document import decode_json
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope
from magnetar.wire.bookkeeper import decode_address

_log = Logger(__name__)

_READ_ONLY: Final = "readonly"
_RETRY_S_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bookies:
    """What the metadata says at one moment."""

    writable: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()
    addresses: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)


def decode_racks(data: bytes) -> dict[str, str]:
    """The racks of bookies as Pulsar keeps them, by group; nothing for what cannot be read."""
    try:
        groups = decode_json(data, dict[str, dict[str, BookieInfo]])
    except msgspec.MsgspecError:
        _log.error("the racks of bookies cannot be read", path=BOOKIES)
        return {}
    return {
        bookie: "/" + info.rack.removeprefix("/")
        for group in groups.values()
        for bookie, info in group.items()
        if info.rack
    }


class BookieRegistry:
    """Follows the registrations by a watch. What was known stays known while metadata is away."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        *,
        racks: MetadataStore,
        clock: Clock,
        quarantine_s: float,
    ) -> None:
        """`racks` is where brokers keep them: bookies may be registered in another store."""
        self.known = Bookies()
        self.changed: list[Callable[[], None]] = []
        """Called when bookies came, went, or may be chosen again."""
        self._store = store
        self._racks = racks
        self._root = f"{root}/available"
        self._cookies = f"{root}/cookies"
        self._clock = clock
        self._quarantine_s = quarantine_s
        self._quarantine: dict[str, float] = {}
        self._scope = TaskScope("bookies")
        self._following = Reconciler(
            self._scope,
            "follow registrations",
            self._follow,
            clock=clock,
            retried=BrokerError,
            most_s=_RETRY_S_MAX,
        )
        self._cancels = (
            store.watch(self._root, self._on_change),
            racks.watch(BOOKIES, self._on_change),
            store.watch_session(self._on_session),
        )

    async def open(self) -> None:
        self.known = await self._load()
        self._following.request()  # a change during the load may have been seen before its end

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._following.close()
        await self._scope.close()

    def fail(self, bookie: str, reason: str) -> None:
        """Choose it for a while only when there is no other: it stays registered for as long as
        its session does.
        """
        if self._quarantine_s <= 0:
            return
        if bookie not in self._quarantine:
            _log.warning("bookie failed", bookie=bookie, reason=reason)
        self._quarantine[bookie] = self._clock.monotonic() + self._quarantine_s
        self._clock.call_later(self._quarantine_s, self._tell)

    def is_quarantined(self, bookie: str) -> bool:
        until = self._quarantine.get(bookie)
        if until is None:
            return False
        if until > self._clock.monotonic():
            return True
        del self._quarantine[bookie]
        return False

    def candidates(self) -> tuple[list[str], list[str]]:
        """The writable bookies in good standing, and those that just failed."""
        preferred: list[str] = []
        others: list[str] = []
        for bookie in sorted(self.known.writable):
            (others if self.is_quarantined(bookie) else preferred).append(bookie)
        return preferred, others

    async def list_all(self) -> tuple[str, ...]:
        """Also those that are away: a bookie leaves a cookie when it starts for the first time."""
        known = self.known.writable | self.known.read_only
        return tuple(sorted(known.union(await self._store.children(self._cookies))))

    def locate(self, bookie: str) -> tuple[str, int] | None:
        found = self.known.addresses.get(bookie)
        return found or decode_address(bookie, b"")

    def _on_change(self, change: Change) -> None:
        self._following.request()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:
            self._following.request()

    async def _follow(self) -> None:
        try:
            found = await self._load()
        except BrokerError as error:
            _log.warning("bookies are not known", reason=error.sentence)
            raise
        for bookie in found.writable - self.known.writable:
            self._quarantine.pop(bookie, None)  # it registered after it failed
        self.known = found
        self._tell()

    def _tell(self) -> None:
        for listener in tuple(self.changed):
            listener()

    async def _load(self) -> Bookies:
        addresses: dict[str, tuple[str, int]] = {}
        writable: set[str] = set()
        read_only: set[str] = set()
        for parent, names in (
            (self._root, writable),
            (f"{self._root}/{_READ_ONLY}", read_only),
        ):
            async for bookie, record in self._store.scan_children(parent):
                address = decode_address(bookie, record.value)
                if bookie != _READ_ONLY and address is not None:
                    names.add(bookie)
                    addresses[bookie] = address
        racks = await self._racks.get(BOOKIES)
        return Bookies(
            frozenset(writable),
            frozenset(read_only),
            addresses,
            {} if racks is None or not racks.value else decode_racks(racks.value),
        )
