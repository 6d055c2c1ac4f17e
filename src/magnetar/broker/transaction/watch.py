"""Clients that watch which broker runs which coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from magnetar.broker.attachment import Link
from magnetar.broker.ownership import Owner
from magnetar.errors import BrokerError
from magnetar.model.limit import Limits, check_size
from magnetar.model.permission import Need, Target
from magnetar.runtime.log import Logger
from magnetar.wire.command import (
    CommandWatchTcAssignmentsUpdate,
    TcAssignment,
    TcAssignmentsSnapshot,
    make_command,
)

_log = Logger(__name__)

LOOK_S: Final = 1.0


class AssignmentWatches:
    """Those of one connection."""

    __slots__ = ("_limits", "_link", "_unsent", "ids", "is_closed")

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self.ids: set[int] = set()
        self.is_closed = False
        self._unsent: TcAssignmentsSnapshot | None = None

    def needs(self) -> Iterable[tuple[Need, Target]]:
        """Any client that was let in may watch."""
        return ()

    def add(self, watch_id: int) -> None:
        check_size(self._limits, "scalable_watches", len(self.ids | {watch_id}))
        self.ids.add(watch_id)

    def send(self, snapshot: TcAssignmentsSnapshot, ids: Iterable[int]) -> None:
        for watch_id in sorted(ids):
            update = CommandWatchTcAssignmentsUpdate(watch_id=watch_id, snapshot=snapshot)
            self._link.send_command(make_command(update))

    def push(self, snapshot: TcAssignmentsSnapshot) -> None:
        """To all of them; while the client does not read, only the newest."""
        if self._link.writable:
            self.send(snapshot, self.ids)
        else:
            self._unsent = snapshot

    def on_writable(self) -> None:
        if self._unsent is not None:
            snapshot, self._unsent = self._unsent, None
            self.send(snapshot, self.ids)

    def close(self) -> None:
        self.ids.clear()
        self.is_closed = True


class AssignmentFeed:
    """Sends every change; a snapshot in which a coordinator has no owner is sent again until it
    is whole.
    """

    def __init__(
        self,
        count: Callable[[], Awaitable[int]],
        assignments: Callable[[], Awaitable[Mapping[int, Owner]]],
    ) -> None:
        self._count = count
        self._assignments = assignments
        self._watches: set[AssignmentWatches] = set()
        self._sent: TcAssignmentsSnapshot | None = None

    async def open(self, watches: AssignmentWatches, watch_id: int) -> None:
        snapshot = await self._read()
        if watches.is_closed:
            return
        watches.add(watch_id)
        self._watches.add(watches)
        self._sent = self._sent or snapshot
        watches.send(snapshot, (watch_id,))

    async def _read(self) -> TcAssignmentsSnapshot:
        count, found = await self._count(), await self._assignments()
        snapshot = TcAssignmentsSnapshot(parallelism=count)
        for number, owner in sorted(found.items()):
            address = owner.address
            assignment = TcAssignment(tc_id=number)
            if address.url:
                assignment.broker_service_url = address.url
            if address.url_tls:
                assignment.broker_service_url_tls = address.url_tls
            snapshot.assignments.append(assignment)
        return snapshot

    async def look(self) -> None:
        self._watches = {each for each in self._watches if each.ids}
        if not self._watches:
            self._sent = None
            return
        try:
            snapshot = await self._read()
        except BrokerError as failure:
            _log.info("coordinators not known", reason=failure.sentence)
            return
        is_whole = len(snapshot.assignments) == snapshot.parallelism
        if snapshot == self._sent and is_whole:
            return
        self._sent = snapshot
        for watches in self._watches:
            watches.push(snapshot)
