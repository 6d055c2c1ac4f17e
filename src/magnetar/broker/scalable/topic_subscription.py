"""The subscriptions of a scalable topic as its leader changes them: each change takes its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from magnetar.broker.policy import EffectivePolicies
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.group import Groups
from magnetar.broker.scalable.leadership import Leadership
from magnetar.broker.scalable.limit import load_limits
from magnetar.broker.scalable.segment import Segments, load_clients
from magnetar.broker.scalable.state import TopicState
from magnetar.broker.scalable.subscription_registry import SubscriptionRegistry
from magnetar.errors import NotAllowed, ResourceBusy
from magnetar.model.position import Position
from magnetar.model.scalable import SubscriptionKind
from magnetar.model.subscription import check_subscription_name
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class TopicSubscriptions:
    def __init__(
        self,
        state: TopicState,
        leadership: Leadership,
        registry: SubscriptionRegistry,
        groups: Groups,
        segments: Segments,
        *,
        policies: EffectivePolicies,
        clock: Clock,
    ) -> None:
        self.registry = registry
        self._state = state
        self._leadership = leadership
        self._groups = groups
        self._segments = segments
        self._policies = policies
        self._clock = clock

    async def create(self, name: str, kind: SubscriptionKind) -> None:
        """At the start of every active segment; one that exists stays as it is."""
        check_subscription_name(name)

        async def body() -> None:
            if name not in self.registry.records:
                limits = await load_limits(self._policies, self._state.topic)
                if 0 < limits.subscriptions_max <= len(self.registry.names):
                    raise NotAllowed(
                        "Exceed the maximum number of subscriptions of the topic:"
                        f" {self._state.topic}"
                    )
            await self.registry.create(name, kind)

        await self._leadership.lead(body)

    async def register(self, name: str, kind: SubscriptionKind) -> None:
        """Note a subscription whose consumers are about to attach wherever they want to begin."""
        if not self.registry.is_registered(name, kind) or not self._leadership.is_leading:
            await self._leadership.lead(lambda: self.registry.register(name, kind))

    async def adopt(self, name: str, start: Position | None) -> None:
        """A consumer has just made a cursor on a segment: it is one of the whole topic."""
        if not self.registry.is_complete(name) or not self._leadership.is_leading:
            await self._leadership.lead(lambda: self.registry.adopt(name, start))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """From every segment, with its consumers; one that is not there is fine."""

        async def body() -> None:
            if not force:
                await self._check_unused(name)
            await self._groups.drop(name, is_over=True)
            await self.registry.delete(name)

        await self._leadership.lead(body)

    async def _check_unused(self, name: str) -> None:
        clients = await load_clients(self._segments, self._state.layout)
        is_attached = any(client.subscription == name for client in clients)
        if is_attached or self._groups.count_consumers().get(name):
            raise ResourceBusy(f"Subscription {name} has active connected consumers")

    async def delete_unused(self) -> None:
        """Those without a consumer for longer than the policy allows."""
        limits = await load_limits(self._policies, self._state.topic)
        if not limits.subscription_expiration_min:
            return
        for name in await self.registry.find_unused(
            limits.subscription_expiration_min,
            busy=self._groups.coordinators,
            now_ms=self._clock.now_ms(),
        ):
            await self.delete(name)
            topic = self._state.topic.full
            _log.info("unused subscription deleted", topic=topic, subscription=name)

    async def seek(self, name: str, timestamp_ms: int) -> None:
        await self._move(name, lambda: self.registry.seek(name, timestamp_ms))

    async def clear_backlog(self, name: str) -> None:
        await self._move(name, lambda: self.registry.clear_backlog(name))

    async def expire(self, name: str, seconds: int) -> None:
        await self._move(name, lambda: self.registry.expire(name, seconds))

    async def _move(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        await self._leadership.lead(body)
        self._groups.on_cursor_moved(name)

    async def coordinator(self, name: str) -> Coordinator:
        """The coordinator of a subscription's group; made when it is first asked for."""

        async def body() -> Coordinator:
            return self._groups.get_or_make(name)

        return await self._leadership.lead(body)

    async def drop_idle_groups(self) -> None:
        """Groups without members need no coordinator."""
        await self._leadership.lead(self._groups.drop_idle)
