"""What is asked of coordinators, here or at the broker that runs them."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.transaction.coordinator import LiveCoordinator
from magnetar.model.transaction import TransactionId


class Coordinators(Protocol):
    async def find(self, number: int) -> LiveCoordinator:
        """Raise CoordinatorNotFound when it runs elsewhere."""


class LocalCoordination:
    """Of a coordinator that this broker runs; refused when another one does."""

    def __init__(self, coordinators: Coordinators, number: int) -> None:
        self._coordinators = coordinators
        self._number = number

    async def begin(self, role: str, timeout_ms: int) -> TransactionId:
        return await (await self._find()).begin(role, timeout_ms)

    async def join(
        self,
        id_: TransactionId,
        role: str,
        is_super_user: bool,
        topics: tuple[str, ...] = (),
        subscriptions: tuple[tuple[str, str], ...] = (),
    ) -> None:
        coordinator = await self._find_own(id_, role, is_super_user)
        await coordinator.join(id_, topics, subscriptions)

    async def end(
        self, id_: TransactionId, role: str, is_super_user: bool, is_commit: bool
    ) -> None:
        coordinator = await self._find_own(id_, role, is_super_user)
        await coordinator.end(id_, is_commit=is_commit)

    async def find(self, id_: TransactionId, topic: str) -> bool | None:
        return await (await self._find()).find_outcome(id_, topic)

    async def _find(self) -> LiveCoordinator:
        return await self._coordinators.find(self._number)

    async def _find_own(
        self, id_: TransactionId, role: str, is_super_user: bool
    ) -> LiveCoordinator:
        """The coordinator of a transaction that the caller may change."""
        coordinator = await self._find()
        coordinator.state.check_owner(id_, role, is_super_user=is_super_user)
        return coordinator
