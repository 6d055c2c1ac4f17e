"""Changes of a scalable topic, step by step: see, decide, act, see again.

The record of the topic names the change before anything is done, so the next controller goes on
with it. Everything here runs in the controller's turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from magnetar.broker.scalable.engine import Engine
from magnetar.broker.scalable.segment import Segments, together
from magnetar.broker.scalable.size import SizeCheck
from magnetar.broker.scalable.state import TopicState
from magnetar.broker.scalable.subscription_registry import SubscriptionRegistry
from magnetar.errors import BrokerError, PreconditionFailed, ServiceNotReady, VersionConflict
from magnetar.model.scalable import (
    HealIntent,
    Intent,
    MergeIntent,
    ScalableTopicMetadata,
    SplitIntent,
    WipeIntent,
)
from magnetar.model.segment import SegmentId, SegmentRef
from magnetar.rules.drain import PrunePlan, Retention, SegmentUse, plan_prune
from magnetar.rules.layout import apply_intent, begin, describe, plan_repair
from magnetar.rules.phase import decide_step, decide_undo, segments_to_see
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_STEPS_MAX: Final = 64
"""No change takes that many; one that does has met something the rules do not know."""

_log = Logger(__name__)


class Mutation:
    def __init__(
        self,
        state: TopicState,
        segments: Segments,
        subscriptions: SubscriptionRegistry,
        clock: Clock,
        *,
        check: SizeCheck,
        forget: Callable[[], Awaitable[None]],
    ) -> None:
        """`forget` removes the record of a topic of which nothing else is left."""
        self._state = state
        self._segments = segments
        self._engine = Engine(
            state.topic, segments, state.records.scaling, store=self._store, forget=forget
        )
        self._subscriptions = subscriptions
        self._clock = clock
        self._check = check
        """Refuses a record whose layout is too large."""
        self.kept: Mapping[SegmentId, str] = {}
        """Why sealed segments stay, as of the last round."""

    @property
    def is_idle(self) -> bool:
        return not self._state.is_loaded or self._state.record.intent is None

    async def begin(self, intent: Intent) -> None:
        """Record a change and carry it out. One that fails is taken back while that is possible."""
        await self._state.update(lambda record: self._checked(record, intent))
        _log.info("change begins", topic=self._state.topic.full, change=describe(intent))
        try:
            await self.resume()
        except BrokerError as failure:
            _log.warning(
                "change failed",
                topic=self._state.topic.full,
                change=describe(intent),
                reason=failure.sentence,
            )
            if isinstance(intent, SplitIntent | MergeIntent | HealIntent):
                await self._undo()
            raise

    def _checked(self, record: ScalableTopicMetadata, intent: Intent) -> ScalableTopicMetadata:
        """The record that begins a change whose outcome is not too large."""
        begun = begin(record, intent)
        if isinstance(intent, SplitIntent | MergeIntent):
            self._check(apply_intent(record, intent, now_ms=self._clock.now_ms()))
        return begun

    async def resume(self) -> None:
        """Go on with the change in the record until there is none."""
        intent = None if self.is_idle else self._state.record.intent
        for _ in range(_STEPS_MAX):
            if self.is_idle:
                if intent is not None:
                    _log.info("change done", topic=self._state.topic.full, change=describe(intent))
                return
            record = self._state.record
            seen = await self._engine.see(segments_to_see(record))
            names = self._subscriptions.names
            step = decide_step(record, seen, names, now_ms=self._clock.now_ms())
            assert step is not None, "there is an intent"
            await self._engine.take(step)
        raise ServiceNotReady(f"A change of {self._state.topic} does not come to an end")

    async def _undo(self) -> None:
        """Take back what can be; else the change stays in the record to be finished later."""
        try:
            while not self.is_idle:
                record = self._state.record
                seen = await self._engine.see(segments_to_see(record))
                await self._engine.take(decide_undo(record, seen))
        except PreconditionFailed:
            pass  # there is only forward
        except BrokerError as failure:
            topic = self._state.topic.full
            _log.warning("change not taken back", topic=topic, reason=failure.sentence)

    async def repair(self) -> None:
        """Make the topics of active segments that are missing, and the ring writable."""
        try:
            await self.heal(segment.id for segment in self._state.layout.active)
        except BrokerError:
            if not self.is_idle:
                raise
            # The next client that attaches tries again; the rest need not wait for that.
        while self._state.is_loaded:
            active = self._state.layout.active
            seen = await self._engine.see(tuple(segment.ref for segment in active))
            sealed = {number for number, segment in seen.items() if segment.is_sealed}
            intent = plan_repair(self._state.layout, sealed, now_ms=self._clock.now_ms())
            if intent is None:
                return
            await self.begin(intent)

    async def heal(self, numbers: Iterable[SegmentId]) -> None:
        """Make topics that are missing of active segments, with every subscription."""
        layout = self._state.layout
        known = (layout.by_id.get(number) for number in numbers)
        active = [each for each in known if each is not None and each.is_active]
        refs = tuple(each.ref for each in active if not each.is_legacy)
        seen = await self._engine.see(refs)
        if missing := tuple(ref for ref in refs if ref.id not in seen):
            await self.begin(HealIntent(missing, self._clock.now_ms()))

    async def wipe(self, number: SegmentId, reason: str) -> None:
        """Remove the data of a segment that stays in the layout; also when it is gone already."""
        segment = self._state.layout.by_id.get(number)
        if segment is not None and await self._engine.see((segment.ref,)):
            await self.begin(WipeIntent((segment.ref,), self._clock.now_ms(), reason))

    async def prune(self, retention: Retention) -> tuple[SegmentId, ...]:
        """Remove the sealed segments that are not needed; return which."""
        layout = self._state.layout
        if not layout.sealed or (retention.time_ms is None and retention.size_bytes is None):
            self.kept = {segment.id: "retained for ever" for segment in layout.sealed}
            return ()
        plan = await self._plan_prune(retention)
        self.kept = plan.kept
        if plan.intent is None:
            return ()
        await self.begin(plan.intent)
        return tuple(ref.id for ref in plan.intent.segments)

    async def _plan_prune(self, retention: Retention) -> PrunePlan:
        layout = self._state.layout

        async def use_of(segment: SegmentRef) -> SegmentUse | None:
            try:
                return await self._segments.use(segment)
            except BrokerError as failure:
                _log.warning(
                    "use of a segment is not known",
                    topic=self._state.topic.full,
                    segment=segment.id,
                    reason=failure.sentence,
                )
                return None

        # What active segments hold counts for the size that retention allows the topic.
        refs = [segment.ref for segment in layout.segments]
        uses = await together(use_of(ref) for ref in refs)
        known = {ref.id: use for ref, use in zip(refs, uses, strict=True) if use is not None}
        return plan_prune(layout, known, retention, now_ms=self._clock.now_ms())

    async def _store(self, record: ScalableTopicMetadata) -> None:
        """A record that was changed by others meanwhile is read again."""
        try:
            await self._state.store(record)
        except VersionConflict:
            await self._state.load()
