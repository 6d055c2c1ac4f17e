"""The way to one segment: a producer on its topic, and the messages in front of it, in order.

One is made for an active segment. When the segment is sealed, it calls back what its topic has not
confirmed. When a layout no longer has the segment active, its messages go to the segments of that
layout. Nothing is sent to a segment before every earlier one whose hashes overlap its own has
handed on what it had, and then in the order of the application's calls. So the messages of one key
never overtake each other, however many layouts pass meanwhile.
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
from magnetar.client.layout import overlaps, span_of
from magnetar.client.message_id import NO_SEGMENT
from magnetar.client.outgoing import Outgoing, format_key
from magnetar.client.publication import ProducerSettings
from magnetar.client.session import Session
from magnetar.client.topic_producer import TopicProducer
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicName
from magnetar.model.segment import Segment, SegmentId


@dataclass(slots=True, eq=False)
class Item(Outgoing):
    """A message with what is needed to send it again elsewhere."""

    producer: SegmentProducer | None = None
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


def name_on(segment: Segment, settings: ProducerSettings) -> str:
    """A regular topic knows a producer by its own name, as it does those of other clients. One that
    keeps its sequence is asked for by segment, also after the topic has become scalable.
    """
    if segment.is_legacy and not settings.keeps_sequence:
        return settings.name or ""
    return f"{settings.name}-seg-{segment.id}"


class SegmentProducerOwner(Protocol):
    def on_sealed(self, producer: SegmentProducer) -> None:
        """Its segment takes no more; a layout should tell which ones do."""

    def on_failed(self, producer: SegmentProducer, failure: PulsarError) -> None:
        """It is of no more use; its messages have failed."""

    def on_ended(self, producer: SegmentProducer, items: Iterable[Item]) -> None:
        """Its segment is not active any more; these are to be sent elsewhere, in order."""


class SegmentProducer:
    """Blocked until those before it have ended; then sends as soon as its topic's is open."""

    def __init__(
        self,
        session: Session,
        owner: SegmentProducerOwner,
        topic: TopicName,
        segment: Segment,
        settings: ProducerSettings,
        completion: SendCompletion,
        *,
        before: Iterable[SegmentProducer],
        is_followed: bool,
    ) -> None:
        self.segment = segment
        self.seal: PulsarError | None = None
        """Why the segment takes no more messages."""
        self.confirmations = 0
        """How often the broker told the same layout since."""
        self.is_open = False
        self._session = session
        self._owner = owner
        self._completion = completion
        self._span = span_of(segment)
        self._blockers = {producer for producer in before if overlaps(producer._span, self._span)}
        self._waiting: list[Item] = []
        self._is_last = not is_followed
        """Whether nothing will take the place of a regular topic that is terminated."""
        self._is_ended = False
        self._is_recalled = False
        self._is_settled = False
        self._is_closed = False
        self._recall: asyncio.Task[None] | None = None
        properties = dict(settings.properties)
        if segment.is_legacy and is_followed:
            properties[MANAGED] = "true"
        own = replace(
            settings,
            name=name_on(segment, settings),
            properties=properties,
            bucket_splits=segment.bucket_splits,
        )
        self.producer = TopicProducer(session, topic, own, completion, owner=self)

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
        self.is_open = True
        self._pump()

    def send(self, item: Item) -> None:
        item.producer = self
        if self._is_flowing:
            self.producer.send_message(item, item.chosen if item.options else None)
        else:
            self._waiting.append(item)

    def unblock(self, origin: SegmentProducer) -> None:
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

    def give_up(self) -> None:
        """No layout will say where else to send: what it had fails as its topic says."""
        self._is_last = True
        if self._is_recalled:
            self._fail_sealed()

    def fail(self, failure: PulsarError) -> None:
        """Nothing of what waits here will be sent."""
        waiting, self._waiting = self._waiting, []
        self._completion.fail(waiting, failure)

    @property
    def id_segment(self) -> SegmentId:
        """A regular topic knows nothing of segments."""
        return NO_SEGMENT if self.segment.is_legacy else self.segment.id

    def on_finished(self, failure: PulsarError) -> None:
        if self._is_closed or self._is_ended or self.seal is not None:
            return
        self.seal = failure
        self._call_back()
        if self._is_seal(failure):
            self._owner.on_sealed(self)

    def _is_seal(self, failure: PulsarError) -> bool:
        """A pruned segment is not found; a regular topic that is not found was never there, and one
        that is terminated may become scalable.
        """
        if isinstance(failure, NotFoundError):
            return not self.segment.is_legacy
        is_over = self._is_last and self.segment.is_legacy
        return isinstance(failure, TopicTerminatedError) and not is_over

    @property
    def _is_flowing(self) -> bool:
        return self.is_open and self.seal is None and not self._blockers and not self._is_ended

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
                self._owner.on_failed(self, error)

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
        self._fail_sealed()
        self._settle()

    def _fail_sealed(self) -> None:
        failure = self.seal
        if failure is not None and not self._is_seal(failure) and not self._is_ended:
            self.fail(failure)
            self._owner.on_failed(self, failure)

    def _settle(self) -> None:
        """Hand everything on once nothing more comes back and nothing earlier is missing."""
        if self._is_closed or self._is_settled or self._blockers:
            return
        if self._is_ended and self._is_recalled:
            self._is_settled = True
            self._owner.on_ended(self, self._take_waiting())

    def _take_waiting(self) -> list[Item]:
        """In the order of the calls, although what earlier producers handed on came later."""
        waiting, self._waiting = self._waiting, []
        given_up = [each for each in waiting if each.sent.done()]
        if given_up:
            self._completion.fail(given_up, AlreadyClosedError("The caller has given it up"))
        return sorted((each for each in waiting if not each.sent.done()), key=_call_order)


def _call_order(item: Item) -> int:
    return item.number
