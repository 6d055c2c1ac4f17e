"""Registry of a scalable topic's subscriptions: a record for each, and cursors on its segments.

A subscription is there for the whole topic, however it came to be. Everything here runs in the
controller's turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from magnetar.broker.lag import Lag
from magnetar.broker.scalable.segment import END, Segments, together
from magnetar.broker.scalable.state import TopicState
from magnetar.errors import SubscriptionNotFound
from magnetar.model.position import EARLIEST, Position
from magnetar.model.scalable import SubscriptionKind, SubscriptionRecord, SubscriptionState
from magnetar.model.segment import Segment, SegmentId, SegmentRef
from magnetar.rules.drain import ToEnd, decide_seek
from magnetar.rules.retain import Use, decide_subscription_use

T = TypeVar("T")


class SubscriptionRegistry:
    def __init__(self, state: TopicState, segments: Segments) -> None:
        self._state = state
        self._segments = segments
        self._records: dict[str, SubscriptionRecord] = {}
        self._complete: set[str] = set()
        """Those known to have a cursor on every segment that they will ever read."""

    @property
    def records(self) -> Mapping[str, SubscriptionRecord]:
        return self._records

    @property
    def names(self) -> frozenset[str]:
        """Those whose cursors go to new segments."""
        return frozenset(
            name
            for name, record in self._records.items()
            if record.state is not SubscriptionState.DELETING
        )

    def is_complete(self, name: str) -> bool:
        return name in self._complete

    async def load(self) -> None:
        self._records = await self._state.records.groups.load_subscriptions(self._state.topic)
        self._complete.clear()

    async def resume(self, streams: Collection[str] = ()) -> None:
        """Finish what was begun, and register cursors that are there without a record; those in
        `streams` are read in order.
        """
        for name, record in list(self._records.items()):
            match record.state:
                case SubscriptionState.CREATING:
                    await self._finish_creation(name, record)
                case SubscriptionState.DELETING:
                    await self._finish_deletion(name)
                case SubscriptionState.READY:
                    pass
        active = self._state.layout.active
        found = await together(self._segments.subscriptions(each.ref) for each in active)
        unknown = sorted(frozenset().union(*found) - self._records.keys())
        await together(
            self.register(
                name, SubscriptionKind.STREAM if name in streams else SubscriptionKind.QUEUE
            )
            for name in unknown
        )

    # ------------------------------------------------------------------ coming

    async def register(self, name: str, kind: SubscriptionKind) -> None:
        """Note that there is such a subscription; its cursors come with its consumers.

        Of a cursor that a regular topic had, only its consumers say that it is read in order.
        """
        if not self.is_registered(name, kind):
            known = self._records.get(name, SubscriptionRecord(kind))
            await self._store(name, replace(known, kind=kind))

    def is_registered(self, name: str, kind: SubscriptionKind) -> bool:
        """One that was read in order stays a stream."""
        known = self._records.get(name)
        return known is not None and known.kind in (kind, SubscriptionKind.STREAM)

    async def create(self, name: str, kind: SubscriptionKind) -> None:
        """Make one that gets everything produced from now on and all that active segments hold.

        One that exists stays as it is.
        """
        if name in self._records:
            return
        record = SubscriptionRecord(kind, SubscriptionState.CREATING)
        await self._store(name, record)
        await self._finish_creation(name, record)

    async def _finish_creation(self, name: str, record: SubscriptionRecord) -> None:
        """A sealed segment gets a cursor too, at its end: without one it would count as unread."""
        await self._add_cursors(
            name,
            {each: EARLIEST if each.is_active else END for each in self._state.layout.segments},
        )
        await self._store(name, replace(record, state=SubscriptionState.READY))
        self._complete.add(name)

    async def adopt(self, name: str, start: Position | None) -> None:
        """A consumer made a cursor on one segment: the others get one too, at the same end.

        `start` is None when no other segment has a place that would be the same.
        """
        if name in self._complete:
            return
        await self.register(name, SubscriptionKind.QUEUE)
        if start is not None:
            await self._add_cursors(name, dict.fromkeys(self._state.layout.segments, start))
            self._complete.add(name)

    async def _add_cursors(self, name: str, starts: Mapping[Segment, Position]) -> None:
        """With the properties of those that are there. A segment without a topic gets them when it
        is made, or has nothing to be read.
        """
        found = await together(self._segments.see(each.ref) for each in starts)
        seen = {each: saw for each, saw in zip(starts, found, strict=True) if saw is not None}
        known = (saw.properties[name] for saw in seen.values() if name in saw.properties)
        properties = next(known, {})
        await together(
            self._segments.create_subscription(each.ref, name, starts[each], properties)
            for each, saw in seen.items()
            if name not in saw.cursors
        )

    # ------------------------------------------------------------------ going

    async def delete(self, name: str) -> None:
        """One that is not registered may have cursors all the same."""
        record = self._records.get(name)
        if record is not None:
            await self._store(name, replace(record, state=SubscriptionState.DELETING))
        await self._finish_deletion(name)

    async def _finish_deletion(self, name: str) -> None:
        self._complete.discard(name)
        segments = self._state.layout.segments
        await together(self._segments.delete_subscription(each.ref, name) for each in segments)
        await self._state.records.groups.delete_subscription(self._state.topic, name)
        self._records.pop(name, None)

    async def _store(self, name: str, record: SubscriptionRecord) -> None:
        await self._state.records.groups.store_subscription(self._state.topic, name, record)
        self._records[name] = record

    # ------------------------------------------------------------------ moving and asking

    async def seek(self, name: str, at_ms: int) -> None:
        """Move to a time: a segment sealed before it is skipped, a later one read whole."""
        layout = self._state.layout
        self._check_any(
            name,
            await together(
                self._segments.move(each.ref, name, decide_seek(each, at_ms))
                for each in layout.segments
            ),
        )

    async def clear_backlog(self, name: str) -> None:
        segments = self._state.layout.segments
        self._check_any(
            name, await together(self._segments.move(each.ref, name, ToEnd()) for each in segments)
        )

    async def expire(self, name: str, seconds: int) -> None:
        segments = self._state.layout.segments
        self._check_any(
            name,
            await together(self._segments.expire(each.ref, name, seconds) for each in segments),
        )

    async def backlog(self, name: str) -> dict[SegmentId, int]:
        """Of each segment on which it has a cursor."""
        return await self._of_each(name, self._segments.backlog)

    async def lag(self, name: str) -> dict[SegmentId, Lag]:
        """The same in entries and in messages."""
        return await self._of_each(name, self._segments.lag)

    async def _of_each(
        self, name: str, ask: Callable[[SegmentRef, str], Awaitable[T | None]]
    ) -> dict[SegmentId, T]:
        segments = self._state.layout.segments
        answers = await together(ask(each.ref, name) for each in segments)
        found = zip(segments, answers, strict=True)
        return {segment.id: answer for segment, answer in found if answer is not None}

    async def idle_since(self, name: str) -> int | None:
        """When its last consumer left; None while there is one."""
        times: list[int] = []
        for segment in self._state.layout.segments:
            if name in await self._segments.subscriptions(segment.ref):
                since_ms = await self._segments.idle_since(segment.ref, name)
                if since_ms is None:
                    return None
                times.append(since_ms)
        return max(times, default=None)

    async def find_unused(
        self, expiration_min: int, *, busy: Collection[str], now_ms: int
    ) -> list[str]:
        """Those without a consumer on any segment for longer than the policy allows."""
        found: list[str] = []
        for name in sorted(self.names):
            since_ms = await self.idle_since(name)
            use = decide_subscription_use(
                has_consumers=since_ms is None or name in busy,
                is_replicated=False,
                idle_ms=now_ms - (since_ms or 0),
                expiration_min=expiration_min,
            )
            if use is Use.UNUSED:
                found.append(name)
        return found

    def _check_any(self, name: str, moved: Iterable[bool]) -> None:
        """A cursor may be missing here or there; one that is nowhere is a wrong name."""
        if not any(moved) and name not in self._records:
            raise SubscriptionNotFound(f"Subscription {name} not found on {self._state.topic}")
