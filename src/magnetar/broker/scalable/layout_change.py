"""Queue of the changes of a scalable topic: each waits for its turn, is planned on the layout as it
is then, recorded as an intent, and carried out by the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from magnetar.broker.policy import EffectivePolicies
from magnetar.broker.scalable.leadership import Leadership
from magnetar.broker.scalable.limit import load_limits
from magnetar.broker.scalable.mutation import Mutation
from magnetar.broker.scalable.segment import Segments, load_clients
from magnetar.broker.scalable.state import TopicState
from magnetar.broker.scalable.subscription_registry import SubscriptionRegistry
from magnetar.model.layout import Layout
from magnetar.model.scalable import Intent, ScaleHold
from magnetar.model.segment import SegmentId
from magnetar.rules.layout import MANUAL, plan_delete, plan_merge, plan_scale, plan_split
from magnetar.runtime.clock import Clock


class LayoutChanges:
    def __init__(
        self,
        state: TopicState,
        leadership: Leadership,
        mutation: Mutation,
        subscriptions: SubscriptionRegistry,
        segments: Segments,
        *,
        policies: EffectivePolicies,
        clock: Clock,
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._mutation = mutation
        self._subscriptions = subscriptions
        self._segments = segments
        self._policies = policies
        self._clock = clock

    async def split(
        self, segment: SegmentId, *, at: int | None = None, reason: str = MANUAL
    ) -> None:
        """Two segments take over from one; `at` is the first hash of the upper one."""
        await self.change(
            lambda layout, now_ms: plan_split(layout, segment, now_ms=now_ms, at=at, reason=reason)
        )

    async def merge(self, left: SegmentId, right: SegmentId, *, reason: str = MANUAL) -> None:
        """One segment takes over from two neighbours."""
        await self.change(
            lambda layout, now_ms: plan_merge(layout, left, right, now_ms=now_ms, reason=reason)
        )

    async def scale_to(self, count: int, *, hold_until_ms: int | None = None) -> None:
        """Split or merge until there are so many active segments. Till the given time there are no
        fewer, however little they carry.
        """
        hold = None if hold_until_ms is None else ScaleHold(count, hold_until_ms)

        async def note() -> None:
            if self._state.record.scale_hold != hold:
                await self._state.update(lambda record: replace(record, scale_hold=hold))

        await self._leadership.lead(note)
        while await self.change(lambda layout, now_ms: plan_scale(layout, count, now_ms=now_ms)):
            pass

    async def change(self, plan: Callable[[Layout, int], Intent | None]) -> bool:
        """Plan on the layout as it is when the turn comes; say whether anything was to be done."""

        async def body() -> bool:
            intent = plan(self._state.layout, self._clock.now_ms())
            if intent is not None:
                await self._mutation.begin(intent)
            return intent is not None

        return await self._leadership.lead(body)

    async def prune(self) -> tuple[SegmentId, ...]:
        """Remove sealed segments that are drained and that retention does not keep."""

        async def body() -> tuple[SegmentId, ...]:
            limits = await load_limits(self._policies, self._state.topic)
            return await self._mutation.prune(limits.retention)

        return await self._leadership.lead(body)

    async def heal(self, segment: SegmentId) -> None:
        """See to it that an active segment has a topic, with every subscription."""
        await self._leadership.lead(lambda: self._mutation.heal((segment,)))

    async def wipe(self, segment: SegmentId, *, reason: str) -> None:
        """Remove the data of a segment that stays in the layout, read or not."""
        await self._leadership.lead(lambda: self._mutation.wipe(segment, reason))

    async def delete(self, *, force: bool = False) -> None:
        """Remove the topic with all its segments. From the first step on there is only forward."""

        async def body() -> None:
            intent = plan_delete(
                self._state.record,
                now_ms=self._clock.now_ms(),
                force=force,
                attached=await self._attached(),
            )
            await self._mutation.begin(intent)

        await self._leadership.lead(body)

    async def _attached(self) -> list[str]:
        """Words for what is in the way of deleting the topic."""
        names = [f"subscription {name}" for name in sorted(self._subscriptions.names)]
        clients = await load_clients(self._segments, self._state.layout)
        return names + [str(client) for client in clients]
