"""The query's hold: a subscription that keeps what it has not read from being deleted.

It is made with the query, on every segment, and follows its commits. It stays when the query stops,
so that a query that is started again finds everything; `release_hold` ends it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from magnetar import (
    AdminError,
    AdminNotFound,
    AsyncPulsarClient,
    ConsumerBusyError,
    MessageId,
    NotFoundError,
)
from magnetar.columns import AsyncBulk
from magnetar.spark.access import ANONYMOUS, Access
from magnetar.spark.bound import end_before
from magnetar.spark.offset import BEFORE_ALL, Offset, Place
from magnetar.spark.option import Broker, topic_key
from magnetar.spark.plan import SegmentView, TopicView
from magnetar.spark.survey import Survey

_BUSY_S: Final = 0.2
PARTS_FIRST: Final = 1_000
PARTS_MAX: Final = 20_000
_PART_OF_TIMEOUT: Final = 4


def name_hold() -> str:
    return f"spark-{uuid.uuid4().hex[:16]}"


def plan_moves(
    views: Mapping[str, TopicView], offset: Offset
) -> list[tuple[TopicView, SegmentView, Place]]:
    """Where the hold of each part belongs: after what was read."""
    return [
        (view, segment, offset.of(name).place(segment.id))
        for name, view in views.items()
        if name in offset.topics
        for segment in view.segments
    ]


def _last_read(segment: SegmentView, place: Place) -> Place:
    """The last entry that was read as a whole."""
    if place.batch >= 0:
        place = Place(place.ledger, place.entry - 1)
    if place.entry < 0 and place != BEFORE_ALL:
        return end_before(segment, place)
    return place


def plan_call(parts: int, spent_s: float, timeout_s: float) -> int:
    """How many parts the next call may have, after one that took so long: no call must outlive the
    client's time-out, however slow the broker's disk is.
    """
    allowed = parts * timeout_s / _PART_OF_TIMEOUT / max(spent_s, 1e-3)
    return max(1, min(PARTS_MAX, int(allowed)))


class Hold:
    """One subscription over all topics of a query."""

    def __init__(
        self, survey: Survey, name: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self._survey = survey
        self._now = now
        self._parts_max = PARTS_FIRST
        self._moved: dict[str, Place] = {}
        self._known: set[str] = set()

    def move(self, views: Mapping[str, TopicView], offset: Offset) -> None:
        """Move it to what was read, and make it where it is missing: by one call, once it is known
        how long that takes.
        """
        moves = [
            (view, segment, place)
            for view, segment, place in plan_moves(views, offset)
            if self._moved.get(segment.topic) != place
        ]
        while moves:
            page, moves = moves[: self._parts_max], moves[self._parts_max :]
            places = {segment.topic: place for _, segment, place in page}
            if self._survey.plan.is_offered:
                self._call(places)
            else:
                self._move_singly(page)
            self._moved |= places

    def _call(self, places: Mapping[str, Place]) -> None:
        began = self._now()
        self._survey.plan.move_hold(self.name, places)
        if len(places) >= min(PARTS_FIRST, self._parts_max):  # few parts do not tell
            spent_s = self._now() - began
            self._parts_max = plan_call(len(places), spent_s, self._survey.broker.timeout_s)

    def _move_singly(self, moves: Sequence[tuple[TopicView, SegmentView, Place]]) -> None:
        """Where the broker has no call for all of them."""
        for view in {view.name: view for view, _, _ in moves}.values():
            if view.label.startswith("topic://") and view.name not in self._known:
                with suppress(AdminNotFound):  # deleted meanwhile: there is nothing left to hold
                    self._survey.admin.scalable_topics.create_subscription(view.name, self.name)
                self._known.add(view.name)
        ends = [(segment.topic, _last_read(segment, place)) for _, segment, place in moves]
        self._survey.run(lambda client: self._move_all(client, ends))

    async def _move_all(
        self, client: AsyncPulsarClient, moves: Iterable[tuple[str, Place]]
    ) -> None:
        for topic, place in moves:
            through = None if place == BEFORE_ALL else MessageId(place.ledger, place.entry)
            try:
                await AsyncBulk(client).hold(topic, self.name, through)
            except NotFoundError:
                pass
            except ConsumerBusyError:  # the driver before this one has not quite gone
                await asyncio.sleep(_BUSY_S)
                await AsyncBulk(client).hold(topic, self.name, through)

    def release(self, view: TopicView) -> None:
        """Nothing is kept for the query any more."""
        admin = self._survey.admin
        if view.label.startswith("topic://"):
            try:
                admin.scalable_topics.delete_subscription(view.name, self.name, force=True)
            except AdminNotFound:
                pass
            return
        for segment in view.segments:
            try:
                admin.subscriptions.delete(segment.topic, self.name, force=True)
            except AdminError:
                continue


def release_hold(
    service_url: str,
    admin_url: str,
    topics: Iterable[str],
    name: str,
    *,
    access: Access = ANONYMOUS,
) -> None:
    """End the hold of a query that will not be started again."""
    with Survey(Broker(service_url, admin_url, access)) as survey:
        for topic in topics:
            Hold(survey, name).release(survey.view(topic_key(topic)))
