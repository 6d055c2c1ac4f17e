"""The way to one segment: a producer on its topic, and the messages in front of it, in order.

A lane is born for an active segment. When the segment is sealed, the lane calls back what its
producer has not got confirmed. When a layout no longer has the segment active, its messages go to
the lanes of that layout. A lane sends nothing before every earlier one whose hashes overlap its own
has handed on what it had, and then in the order of the application's calls. So the messages of one
key never overtake each other, however many layouts pass meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from magnetar.client.admission import SendCompletion
from magnetar.client.error import (
    AlreadyClosedError,
    NotFoundError,
    PulsarError,
    TopicTerminatedError,
)
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.outgoing import Outgoing, format_key
from magnetar.client.publication import ProducerSettings
from magnetar.client.scalable.message_id import NO_VECTOR, MessageId
from magnetar.client.scalable.route import overlaps, span_of
from magnetar.client.session import Session
from magnetar.client.topic_producer import TopicProducer
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicName
from magnetar.model.segment import Segment, SegmentId


@dataclass(slots=True, eq=False)
class Item(Outgoing):
    """A message with what is needed to send it again elsewhere."""

    lane: Lane | None = None
    """Where it waits or was sent."""
    aim: SegmentId | None = None
    """The segment that a pack was made for."""

    @property
    def route(self) -> str | None:
        """The key as it is hashed."""
        return None if self.key is None else format_key(self.key)

    @property
    def chosen(self) -> int | None:
        """A sequence id that the application gave."""
        return self.options.get("sequence_id") if self.options else None


class LaneOwner(Protocol):
    def on_lane_sealed(self, lane: Lane) -> None:
        """Its segment takes no more; a layout should tell which ones do."""

    def on_lane_failed(self, lane: Lane, failure: PulsarError) -> None:
        """It is of no more use; its messages have failed."""

    def on_lane_ended(self, lane: Lane, items: Iterable[Item]) -> None:
        """Its segment is not active any more; these are to be sent elsewhere, in order."""


class Lane:
    """Blocked until the lanes before it have ended; then sends as soon as its producer is open."""

    def __init__(
        self,
        session: Session,
        owner: LaneOwner,
        topic: TopicName,
        segment: Segment,
        settings: ProducerSettings,
        completion: SendCompletion,
        before: Iterable[Lane],
    ) -> None:
        self.segment = segment
        self.seal: PulsarError | None = None
        """Why the segment takes no more messages."""
        self._session = session
        self._owner = owner
        self._completion = completion
        self._span = span_of(segment)
        self._blockers = {lane for lane in before if overlaps(lane._span, self._span)}
        self._waiting: list[Item] = []
        self._is_open = False
        self._is_ended = False
        self._is_recalled = False
        self._is_settled = False
        self._is_closed = False
        self._recall: asyncio.Task[None] | None = None
        properties = dict(settings.properties)
        if segment.is_legacy:
            properties[MANAGED] = "true"
        own = replace(
            settings,
            name=f"{settings.name}-seg-{segment.id}",
            properties=properties,
            bucket_splits=segment.bucket_splits,
        )
        self.producer = TopicProducer(session, segment.name_in(topic), own, completion, owner=self)

    def start(self) -> None:
        """Open on the side; what comes until then waits."""
        self._session.scope.start(self._open_aside(), f"produce to {self.producer.topic}")

    async def open(self) -> None:
        """Open now, and raise why it cannot be; a seal is no failure."""
        try:
            await self.producer.open()
        except (TopicTerminatedError, NotFoundError) as error:
            if not self._is_seal(error):
                raise
            self.on_finished(error)
            return
        self._is_open = True
        self._pump()

    def send(self, item: Item) -> None:
        item.lane = self
        if self._is_flowing:
            self.producer.send_message(item, item.chosen if item.options else None)
        else:
            self._waiting.append(item)

    def unblock(self, origin: Lane) -> None:
        if origin in self._blockers:
            self._blockers.discard(origin)
            self._pump()
            self._settle()

    def flush(self) -> None:
        """Send what was collected, without waiting for more."""
        if self.seal is None and not self._is_ended:
            self.producer.flush_batch()

    def end(self) -> None:
        """The layout has other segments for these hashes."""
        if not self._is_ended:
            self._is_ended = True
            self._call_back()

    async def close(self) -> None:
        self._is_closed = True
        if self._recall is not None:
            self._recall.cancel()
        await self.producer.close()

    def fail(self, failure: PulsarError) -> None:
        """Nothing of what waits here will be sent."""
        waiting, self._waiting = self._waiting, []
        self._completion.fail(waiting, failure)

    def identify(self, ids: list[EntryId]) -> list[MessageId]:
        number = self.segment.id
        return [MessageId(number, id, NO_VECTOR) for id in ids]

    def on_finished(self, failure: PulsarError) -> None:
        if self._is_closed or self._is_ended or self.seal is not None:
            return
        self.seal = failure
        self._call_back()
        if self._is_seal(failure):
            self._owner.on_lane_sealed(self)

    def _is_seal(self, failure: PulsarError) -> bool:
        """A pruned segment is not found; a regular topic that is not found was never there."""
        if isinstance(failure, NotFoundError):
            return not self.segment.is_legacy
        return isinstance(failure, TopicTerminatedError)

    @property
    def _is_flowing(self) -> bool:
        return self._is_open and self.seal is None and not self._blockers and not self._is_ended

    def _pump(self) -> None:
        if not self._is_flowing:
            return
        for item in self._take_waiting():
            self.producer.send_message(item, item.chosen)
        self.flush()  # they have waited long enough

    async def _open_aside(self) -> None:
        try:
            await self.open()
        except PulsarError as error:
            if not self._is_closed and not self._is_ended:
                self.seal = error
                self.fail(error)
                self._owner.on_lane_failed(self, error)

    def _call_back(self) -> None:
        """Take back what was sent; done once, whichever comes first, the seal or the layout."""
        if self._recall is None:
            name = f"call back from {self.producer.topic}"
            self._recall = self._session.scope.start(self._take_back(), name)
        self._settle()

    async def _take_back(self) -> None:
        unconfirmed = await self.producer.retire()
        self._waiting.extend(item for item in unconfirmed if isinstance(item, Item))
        self._is_recalled = True
        failure = self.seal
        if failure is not None and not self._is_seal(failure) and not self._is_ended:
            self.fail(failure)
            self._owner.on_lane_failed(self, failure)
        self._settle()

    def _settle(self) -> None:
        """Hand everything on once nothing more comes back and nothing earlier is missing."""
        if self._is_closed or self._is_settled or self._blockers:
            return
        if self._is_ended and self._is_recalled:
            self._is_settled = True
            self._owner.on_lane_ended(self, self._take_waiting())

    def _take_waiting(self) -> list[Item]:
        """In the order of the calls, although what earlier lanes handed on came later."""
        waiting, self._waiting = self._waiting, []
        given_up = [each for each in waiting if each.sent.done()]
        if given_up:
            self._completion.fail(given_up, AlreadyClosedError("The caller has given it up"))
        return sorted((each for each in waiting if not each.sent.done()), key=_call_order)


def _call_order(item: Item) -> int:
    return item.number
