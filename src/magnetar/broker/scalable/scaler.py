"""Auto-scaling of a topic: its controller gathers what is known, asks the rules, acts.

One question is asked at a time; whatever happens meanwhile leads to one more. An answer is carried
out only on the very layout it was given for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from magnetar.broker.scalable.autoscale import ScalePolicies
from magnetar.broker.scalable.decision import DecisionEntry, DecisionLog, Trigger
from magnetar.broker.scalable.group import Groups
from magnetar.broker.scalable.layout_change import LayoutChanges
from magnetar.broker.scalable.leadership import Leadership
from magnetar.broker.scalable.load_observation import LoadObserver
from magnetar.broker.scalable.segment import Segments
from magnetar.broker.scalable.state import TopicState
from magnetar.errors import BrokerError, PreconditionFailed
from magnetar.metadata.store import ABSENT
from magnetar.model.answer.scalable import ScaleDecisionAnswer
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import ChangeKind, Intent, ScalableTopicMetadata
from magnetar.model.scaling import ScaleMemory, ScaleTally
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.hotspot import KeySample, plan_split_point
from magnetar.rules.layout import count_changes, plan_merge, plan_split
from magnetar.rules.scale import (
    NEVER,
    Bar,
    Change,
    Merge,
    Sample,
    ScaleDecision,
    Split,
    Surroundings,
    decide,
    explain,
    hottest,
    refuse,
)
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_TIMED: Final = frozenset({Bar.SPLIT_COOLDOWN, Bar.MERGE_COOLDOWN, Bar.MERGE_WINDOW})
_MARGIN_S: Final = 0.001
_STORE_S: Final = 60.0
_PATIENCE_S: Final = 5.0
_REMEMBERED_MAX: Final = 32
"""Decisions that are kept for the next controller."""

IsOutdated: TypeAlias = Callable[[TopicName, Segment, int], Awaitable[bool]]
"""Whether a report on a segment of a time, in milliseconds, says nothing about now."""

_log = Logger(__name__)


class Scaler:
    def __init__(
        self,
        state: TopicState,
        leadership: Leadership,
        changes: LayoutChanges,
        groups: Groups,
        segments: Segments,
        *,
        policies: ScalePolicies,
        clock: Clock,
        config: Configuration,
        is_outdated: IsOutdated,
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._changes = changes
        self._groups = groups
        self._segments = segments
        self._policies = policies
        self._clock = clock
        self._config = config
        self._loads = LoadObserver(
            state.records,
            state.topic,
            clock,
            is_outdated=partial(is_outdated, state.topic),
            on_report=lambda: self.trigger(Trigger.LOAD),
        )
        self._tasks: TaskScope | None = None
        self._pending: list[Trigger] = []
        self._working: asyncio.Task[None] | None = None
        self._follow_up: Timer | None = None
        self._changed: dict[ChangeKind, tuple[int, float]] = {}
        """Of the last split and the last merge: the epoch it led to, and when, in seconds of the
        clock that never goes back.
        """
        self._problem = ""
        self.decisions = DecisionLog()
        self._tally = ScaleTally()
        self._stored = ScaleTally()
        self._stored_at_s = -math.inf
        self._version = ABSENT
        self._is_new = False
        """Whether anything is not stored that the next controller should know."""

    @property
    def tally(self) -> ScaleTally:
        """It never goes back: what is not stored could be forgotten, so it is not told yet. Splits
        and merges are in the record of the topic.
        """
        return replace(self._stored, splits=self._tally.splits, merges=self._tally.merges)

    # ------------------------------------------------------------------ leading or not

    async def start(self) -> None:
        """This broker leads the topic. The record tells when it was last split and merged."""
        await self._restore()
        if self._tasks is None:
            self._tasks = TaskScope(f"scaling {self._state.topic}")
            self._loads.start()
        self.on_changed(self._state.record)

    async def _restore(self) -> None:
        """What an earlier controller knew."""
        memory, self._version = await self._state.records.scaling.load_memory(self._state.topic)
        self._tally = self._stored = memory.tally
        self.decisions.restore(memory.decisions)
        self._stored_at_s, self._is_new = -math.inf, False

    async def remember(self) -> None:
        """Store what the next controller should know, if there is anything."""
        if not self._is_new:
            return

        async def body() -> None:
            if not self._leadership.is_leading or self._state.is_gone:
                return  # nothing is to be written below the record
            memory = ScaleMemory(self._tally, tuple(self.decisions.describe()[-_REMEMBERED_MAX:]))
            self._version = await self._state.records.scaling.store_memory(
                self._state.topic, memory, expect=self._version
            )
            self._stored, self._is_new = memory.tally, False
            self._stored_at_s = self._clock.monotonic()

        try:
            async with self._clock.timeout(_PATIENCE_S):
                await self._leadership.run(body)
        except (BrokerError, TimeoutError) as failure:
            topic = self._state.topic.full
            _log.warning("scaling not stored", topic=topic, reason=str(failure))

    @property
    def _is_due(self) -> bool:
        """Changes are stored at once, the rest now and then."""
        is_old = self._clock.monotonic() - self._stored_at_s >= _STORE_S
        return is_old or self._tally.epoch != self._stored.epoch

    async def stop(self) -> None:
        """What was decided and is not done yet is left to the next leader."""
        tasks, self._tasks = self._tasks, None
        if self._follow_up is not None:
            self._follow_up.cancel()
            self._follow_up = None
        self._pending.clear()
        self._loads.stop()
        self._changed.clear()
        if tasks is not None:
            await tasks.close()

    @property
    def is_waiting(self) -> bool:
        """Whether it did something last, or would do something later if nothing else happened."""
        last = self.decisions.last
        return last is not None and (
            last.decision.change is not None or not _TIMED.isdisjoint(last.decision.held_by)
        )

    # ------------------------------------------------------------------ what happens

    def on_changed(self, record: ScalableTopicMetadata) -> None:
        """Splits and merges count for the cooldowns, manual ones too."""
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        for event in record.history:
            known = self._changed.get(event.kind)
            if known is None or known[0] < event.epoch:
                # Another clock may have been ahead of this one: nothing was done in the future.
                ago_s = max(0, now_ms - event.at_ms) / 1000
                self._changed[event.kind] = (event.epoch, now_s - ago_s)
        counted = count_changes(self._tally, record.history)
        self._is_new |= counted != self._tally
        self._tally = counted

    def trigger(self, trigger: Trigger) -> None:
        """Ask soon. Those who ask before the question is put share the answer."""
        if self._tasks is None or not self._leadership.is_leading:
            return
        if trigger not in self._pending:
            self._pending.append(trigger)
        if self._working is None:
            self._working = self._tasks.start(self._work(), "evaluate")

    async def evaluate(self) -> None:
        """Ask, and return when it is answered and carried out."""
        self.trigger(Trigger.TICK)
        while (working := self._working) is not None:
            await asyncio.wait([working])

    async def _work(self) -> None:
        try:
            while self._pending and self._leadership.is_leading:
                asked, self._pending = self._pending, []
                # Only when all come from a consumer that joined is anything forbidden.
                trigger = next((each for each in asked if each is not Trigger.JOIN), Trigger.JOIN)
                try:
                    await self._evaluate(trigger)
                except BrokerError as failure:  # the next trigger asks again
                    topic = self._state.topic.full
                    _log.warning("topic not evaluated", topic=topic, reason=failure.sentence)
        finally:
            self._working = None

    # ------------------------------------------------------------------ deciding

    async def _evaluate(self, trigger: Trigger) -> None:
        record = self._state.record
        layout = record.layout
        around = self._gather_surroundings(record, is_joining=trigger is Trigger.JOIN)
        policy, refusal = await self._load_policy(record)
        samples = await self._loads.load(layout, None if refusal else policy)
        decision = refusal or decide(layout, samples, policy, around)
        keys: KeySample | None = None
        if self._config.scalableTopicKeySamplingEnabled:
            decision, keys = await self._sample_keys(decision, layout, samples, policy, around)
        entry = DecisionEntry(
            self._clock.now_ms(),
            trigger,
            layout.epoch,
            len(layout.active),
            around.consumers_most,
            _loads(decision.change, layout, samples, policy),
            decision,
            tuple(explain(decision, layout, samples, policy, around)),
        )
        self._is_new |= self.decisions.add(entry)
        self._note(decision)
        if decision.change is not None:
            await self._carry_out(entry, decision.change, keys)
        self._plan_follow_up(decision, policy, around)
        if self._is_due:
            await self.remember()

    def _gather_surroundings(
        self, record: ScalableTopicMetadata, *, is_joining: bool = False
    ) -> Surroundings:
        hold = record.scale_hold
        return Surroundings(
            tuple(self._groups.count_consumers().values()),
            self._since_ms(ChangeKind.SPLIT),
            self._since_ms(ChangeKind.MERGE),
            0 if hold is None else hold.segments_at(self._clock.now_ms()),
            is_joining,
        )

    def _since_ms(self, kind: ChangeKind) -> float:
        known = self._changed.get(kind)
        return NEVER if known is None else (self._clock.monotonic() - known[1]) * 1000

    async def _load_policy(
        self, record: ScalableTopicMetadata
    ) -> tuple[AutoScalePolicy, ScaleDecision | None]:
        """The policy in force, or the decision to do nothing because it cannot be read."""
        try:
            return await self._policies.load(self._state.topic.namespace, record), None
        except PreconditionFailed as refusal:
            return AutoScalePolicy(), refuse(refusal.sentence)

    async def _sample_keys(
        self,
        decision: ScaleDecision,
        layout: Layout,
        samples: dict[SegmentId, Sample],
        policy: AutoScalePolicy,
        around: Surroundings,
    ) -> tuple[ScaleDecision, KeySample | None]:
        """Before a split: where the load lies, and whether it is one key. One that splitting does
        not help leaves the turn to the next.
        """
        found: dict[SegmentId, KeySample] = {}
        while isinstance(decision.change, Split) and decision.change.segment not in found:
            segment = decision.change.segment
            keys = await self._segments.sample_keys(layout.get(segment).ref)
            found[segment] = keys
            if segment in samples:
                samples[segment] = replace(samples[segment], key_share=keys.top_share)
            decision = decide(layout, samples, policy, around)
        chosen = decision.change.segment if isinstance(decision.change, Split) else None
        return decision, None if chosen is None else found[chosen]

    def _note(self, decision: ScaleDecision) -> None:
        tally = replace(
            self._tally,
            splits_capped=self._tally.splits_capped + (Bar.MAX_SEGMENTS in decision.held_by),
            merges_capped=self._tally.merges_capped + (Bar.MAX_DAG_DEPTH in decision.held_by),
        )
        self._is_new |= tally != self._tally
        self._tally = tally
        if decision.problem != self._problem:  # said once, until it is another one
            self._problem = decision.problem
            if decision.problem:
                topic = self._state.topic.full
                _log.warning("topic does not scale itself", topic=topic, reason=decision.problem)

    # ------------------------------------------------------------------ acting

    async def _carry_out(
        self, entry: DecisionEntry, change: Change, keys: KeySample | None
    ) -> None:
        """On the layout that was asked about, or not at all: then the question is put again."""
        reason = entry.decision.reason

        def plan(layout: Layout, now_ms: int) -> Intent | None:
            if layout.epoch != entry.epoch:
                return None
            match change:
                case Split(segment):
                    at = plan_split_point(keys, layout.get(segment).range) if keys else None
                    return plan_split(layout, segment, now_ms=now_ms, at=at, reason=reason)
                case Merge(left, right):
                    return plan_merge(layout, left, right, now_ms=now_ms, reason=reason)
                case _:
                    assert_never(change)

        try:
            done = await self._changes.change(plan)
        except BrokerError as failure:
            entry.failure = failure.sentence
            raise
        if not done:
            entry.failure = "The layout changed meanwhile"
            self.trigger(Trigger.FOLLOW_UP)

    def _plan_follow_up(
        self, decision: ScaleDecision, policy: AutoScalePolicy, around: Surroundings
    ) -> None:
        """Ask again as soon as the cooldown of splits is over: a growing topic does not wait for
        the next look.
        """
        if isinstance(decision.change, Split):
            wait_s = float(policy.splitCooldownSeconds)
        elif Bar.SPLIT_COOLDOWN in decision.held_by:
            wait_s = max(0.0, policy.splitCooldownSeconds - around.since_split_ms / 1000)
        else:
            return
        if self._follow_up is not None:
            self._follow_up.cancel()
        self._follow_up = self._clock.call_later(wait_s + _MARGIN_S, self._on_follow_up)

    def _on_follow_up(self) -> None:
        self._follow_up = None
        self.trigger(Trigger.FOLLOW_UP)

    # ------------------------------------------------------------------ asking

    async def explain(self) -> list[str]:
        """Why the topic does or does not split or merge, as of now; nothing is changed."""
        record = self._state.record
        policy, refusal = await self._load_policy(record)
        samples = await self._loads.peek(record.layout, None if refusal else policy)
        around = self._gather_surroundings(record)
        decision = refusal or decide(record.layout, samples, policy, around)
        return explain(decision, record.layout, samples, policy, around)

    def describe(self) -> list[ScaleDecisionAnswer]:
        """The latest decisions, oldest first."""
        return self.decisions.describe()


def _loads(
    change: Change | None,
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
) -> dict[SegmentId, Any]:
    """Of the segments that a decision is about."""
    match change:
        case Split(segment):
            about = [segment]
        case Merge(left, right):
            about = [left, right]
        case None:
            first = hottest(layout, samples, policy)
            about = [] if first is None else [first]
    return {number: samples[number].load for number in about if number in samples}
