"""The query's hold: a subscription that keeps what it has not read from being deleted.

It is made with the query, on every segment, and follows its commits. It stays when the query stops,
so that a query that is started again finds everything; `release_hold` ends it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import AdminError, AdminNotFound, ConsumerBusyError, NotFoundError
from magnetar.client.message_id import MessageId
from magnetar.spark.access import NOBODY, Access
from magnetar.spark.bound import end_before
from magnetar.spark.offset import BEFORE_ALL, Place, TopicOffset
from magnetar.spark.option import Broker, topic_key
from magnetar.spark.plan import SegmentView, TopicView
from magnetar.spark.survey import Survey

_BUSY_S = 0.2


def name_hold() -> str:
    return f"spark-{uuid.uuid4().hex[:16]}"


def plan_moves(view: TopicView, read: TopicOffset) -> list[tuple[SegmentView, Place]]:
    """Where the hold of each segment belongs: after what was read."""
    moves = []
    for segment in view.segments:
        place = read.place(segment.id)
        if place.batch >= 0:
            place = Place(place.ledger, place.entry - 1)
        if place.entry < 0 and place != BEFORE_ALL:
            place = end_before(segment, place)
        moves.append((segment, place))
    return moves


class Hold:
    """One subscription over all topics of a query."""

    def __init__(self, survey: Survey, name: str) -> None:
        self.name = name
        self._survey = survey
        self._moved: dict[str, Place] = {}
        self._known: set[str] = set()

    def take(self, view: TopicView, read: TopicOffset) -> None:
        """Move it to what was read, and make it where it is missing."""
        if view.label.startswith("topic://") and view.name not in self._known:
            try:
                self._survey.admin.scalable_topics.create_subscription(view.name, self.name)
            except AdminNotFound:
                return  # deleted meanwhile: there is nothing left to hold
            self._known.add(view.name)
        moves = [
            (segment.topic, place)
            for segment, place in plan_moves(view, read)
            if self._moved.get(segment.topic) != place
        ]
        if moves:
            self._survey.run(lambda client: self._move_all(client, moves))

    async def _move_all(
        self, client: AsyncPulsarClient, moves: Iterable[tuple[str, Place]]
    ) -> None:
        for topic, place in moves:
            through = None if place == BEFORE_ALL else MessageId(place.ledger, place.entry)
            try:
                await client.bulk.hold(topic, self.name, through)
            except NotFoundError:
                pass
            except ConsumerBusyError:  # the driver before this one has not quite gone
                await asyncio.sleep(_BUSY_S)
                await client.bulk.hold(topic, self.name, through)
            self._moved[topic] = place

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
    access: Access = NOBODY,
) -> None:
    """End the hold of a query that will not be started again."""
    with Survey(Broker(service_url, admin_url, access)) as survey:
        for topic in topics:
            Hold(survey, name).release(survey.view(topic_key(topic)))
