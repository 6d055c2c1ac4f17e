"""The groups of consumers that read a scalable topic together, each with its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.model.segment import SegmentId

if TYPE_CHECKING:
    from magnetar.broker.scalable.controller import Controller


class Groups:
    """Belongs to the controller's turn: one task at a time calls what waits."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.coordinators: dict[str, Coordinator] = {}

    def get_or_make(self, name: str) -> Coordinator:
        coordinator = self.coordinators.get(name)
        if coordinator is None:
            coordinator = self.coordinators[name] = Coordinator(self._controller, name)
        return coordinator

    async def restore(self) -> None:
        """Take over every group that has registered consumers, and those that the topic had when
        it was a regular one.
        """
        records, topic = self._controller.records, self._controller.topic
        for name in await records.load_groups(topic):
            if await records.load_consumers(topic, name):
                await self.get_or_make(name).restore()
        regular = self._controller.service.scalable.regular
        for name, coordinator in regular.release(topic).items():
            self.coordinators[name] = coordinator
            await coordinator.move(self._controller)

    async def drop(self, name: str, *, is_over: bool = False) -> None:
        """Its consumers look for the next leader, unless there is nothing to read any more."""
        coordinator = self.coordinators.pop(name, None)
        if coordinator is not None:
            await coordinator.close(is_over=is_over)

    async def drop_all(self) -> None:
        for name in list(self.coordinators):
            await self.drop(name, is_over=self._controller.is_gone)

    async def drop_idle(self) -> None:
        """Those that everyone has left."""
        for name, coordinator in list(self.coordinators.items()):
            if coordinator.is_idle:
                await self.drop(name)

    def has_consumers(self, name: str) -> bool:
        coordinator = self.coordinators.get(name)
        return coordinator is not None and bool(coordinator.consumers)

    def on_layout_changed(self) -> None:
        for coordinator in list(self.coordinators.values()):
            coordinator.on_layout_changed()

    def on_drained(self, segment: SegmentId, name: str) -> None:
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            coordinator.on_drained(segment)

    def on_cursor_moved(self, name: str) -> None:
        coordinator = self.coordinators.get(name)
        if coordinator is not None:
            coordinator.on_cursor_moved()
