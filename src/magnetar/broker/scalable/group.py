"""The groups of consumers that read a topic together, each with its coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from magnetar.broker.scalable.coordinator import Coordinator, CoordinatorFactory
from magnetar.broker.scalable.host import Host
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId


class Groups:
    """Those of a scalable topic belong to its controller's turn: one task at a time calls what
    waits.
    """

    def __init__(self, host: Host, make: CoordinatorFactory) -> None:
        self._host = host
        self._make = make
        self.coordinators: dict[str, Coordinator] = {}

    def get_or_make(self, name: str) -> Coordinator:
        coordinator = self.coordinators.get(name)
        if coordinator is None:
            coordinator = self.coordinators[name] = self._make(self._host, name)
        return coordinator

    async def restore(self, names: Iterable[str]) -> None:
        """Take over those that have registered consumers."""
        for name in names:
            if await self._host.records.load_consumers(self._host.topic, name):
                await self.get_or_make(name).restore()

    async def adopt(self, coordinators: Mapping[str, Coordinator]) -> None:
        """Take over the groups that the topic had when it was a regular one."""
        for name, coordinator in coordinators.items():
            self.coordinators[name] = coordinator
            await coordinator.move(self._host)

    async def drop(self, name: str, *, is_over: bool = False) -> None:
        """Its consumers look for the next leader, unless there is nothing to read any more."""
        coordinator = self.coordinators.pop(name, None)
        if coordinator is not None:
            await coordinator.close(is_over=is_over)

    async def drop_all(self, *, is_over: bool = False) -> None:
        for name in list(self.coordinators):
            await self.drop(name, is_over=is_over)

    async def drop_idle(self) -> None:
        """Those without members."""
        for name, coordinator in list(self.coordinators.items()):
            if coordinator.members.is_empty:
                await self.drop(name)

    def count_consumers(self) -> dict[str, int]:
        """Registered ones, with or without a connection."""
        return {name: len(each.members.names) for name, each in self.coordinators.items()}

    def on_layout_changed(self) -> None:
        for coordinator in list(self.coordinators.values()):
            coordinator.on_layout_changed()

    def on_drained(self, segment: SegmentId, name: str) -> None:
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            coordinator.assigner.on_drained(segment)

    def on_cursor_moved(self, name: str) -> None:
        """What was drained may have work again, and the other way round."""
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            coordinator.assigner.on_cursor_moved()


class GroupOwner(Protocol):
    """A controller, or a regular topic that has groups."""

    @property
    def layout(self) -> Layout: ...

    @property
    def groups(self) -> Groups: ...


GroupOwnersOf: TypeAlias = Callable[[TopicName], Sequence[GroupOwner]]
"""The owners of groups of a topic here: two while it becomes scalable, the controller first."""
