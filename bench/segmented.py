"""A producer of keyed messages to a scalable topic: follows the layout, resends what a split undid.

As little as a client must do: it keeps a producer on each active segment, holds back what has
nowhere to go, and notes when receipts come.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from bench.line import ANSWER_S_MAX, Line
from magnetar.model.hash import murmur3_32
from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.segment import RING, SegmentId, scalable_name
from magnetar.wire.command import (
    BaseCommand,
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandSendReceipt,
    encode_command,
    make_command,
)
from magnetar.wire.layout import decode_dag

TICK_S = 0.001


class SegmentedLine(Line):
    """A connection with layout sessions; `layouts` holds the latest one of each."""

    def __init__(self) -> None:
        super().__init__()
        self.layouts: dict[int, Layout] = {}
        self.updates = 0
        self._changed: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._loads: dict[int, KeyedLoad] = {}

    async def look_up(self, session: int, topic: str) -> Layout:
        await self._look_up(topic)
        lookup = CommandScalableTopicLookup(session_id=session, topic=topic)
        self.write(encode_command(make_command(lookup)))
        await asyncio.wait_for(self._changed[session].wait(), ANSWER_S_MAX)
        return self.layouts[session]

    def end_session(self, session: int) -> None:
        self.write(encode_command(make_command(CommandScalableTopicClose(session_id=session))))
        self.layouts.pop(session, None)
        self._changed.pop(session, None)

    def follow(self, session: int, load: KeyedLoad) -> None:
        self._loads[session] = load

    def _on_answer(self, command: BaseCommand) -> None:
        match command.type:
            case BaseCommand.SCALABLE_TOPIC_UPDATE:
                self._on_update(command)
            case BaseCommand.CLOSE_PRODUCER:
                for load in self._loads.values():
                    load.on_gone(command.close_producer.producer_id)
            case BaseCommand.SEND_ERROR:
                for load in self._loads.values():
                    load.on_gone(command.send_error.producer_id)
            case _:
                super()._on_answer(command)

    def _on_update(self, command: BaseCommand) -> None:
        update = command.scalableTopicUpdate
        if not update.HasField("dag"):
            self._fail(RuntimeError(f"no layout: {update.message}"))
            return
        self.updates += 1
        self.layouts[update.session_id] = decode_dag(update.dag).layout
        self._changed[update.session_id].set()
        if update.session_id in self._loads:
            self._loads[update.session_id].on_layout(self.layouts[update.session_id])


@dataclass(slots=True)
class _Lane:
    """The producer of one segment."""

    producer_id: int
    is_ready: bool = False
    sent: int = 0
    waiting: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    held: list[tuple[int, bytes]] = field(default_factory=list)


class KeyedLoad:
    """Messages with keys from all over the ring, at a rate, to one topic."""

    def __init__(self, line: SegmentedLine, topic: str, *, keys: int = 1000) -> None:
        self._line = line
        self._topic = parse_topic(topic)
        self._places = [murmur3_32(b"key-%d" % number) % RING for number in range(keys)]
        self._lanes: dict[SegmentId, _Lane] = {}
        self._layout: Layout | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.receipts: list[float] = []
        self.opened_at = 0.0
        """When the last producer was there."""
        self.sent = 0
        self._is_stopped = False
        line.on_receipt = self._on_receipt

    async def begin(self, session: int) -> None:
        self._line.follow(session, self)
        self.on_layout(await self._line.look_up(session, self._topic.full))

    async def run(self, *, seconds: float, rate_per_s: float, size: int = 100) -> None:
        """For so long, or until it is told to `stop`."""
        payload, began = b"x" * size, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds and not self._is_stopped:
            while self.sent < elapsed * rate_per_s:
                self._send(self._places[self.sent % len(self._places)], payload)
                self.sent += 1
            await asyncio.sleep(TICK_S)

    def stop(self) -> None:
        self._is_stopped = True

    async def drain(self) -> None:
        deadline = time.perf_counter() + ANSWER_S_MAX
        while any(lane.waiting or lane.held for lane in self._lanes.values()):
            if time.perf_counter() > deadline:
                raise TimeoutError("messages are left without a receipt")
            await asyncio.sleep(TICK_S)

    def longest_silence_s(self, start: float, end: float) -> float:
        """The longest time without a receipt between two moments of the run."""
        within = [moment for moment in self.receipts if start <= moment <= end]
        edges = [start, *within, end]
        return max(after - before for before, after in pairwise(edges))

    def on_layout(self, layout: Layout) -> None:
        self._layout = layout
        for segment in layout.active:
            if segment.id not in self._lanes:
                self._lanes[segment.id] = _Lane(int(segment.id))
                task = asyncio.get_running_loop().create_task(self._open(segment.id))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        for number, lane in list(self._lanes.items()):
            if number not in layout.by_id or layout.by_id[number].is_sealed:
                self._retreat(lane)
                for place, payload in lane.held:
                    self._send(place, payload)
                lane.held.clear()

    def on_gone(self, producer_id: int) -> None:
        """The broker sent the producer away; what follows it is told by the next layout."""
        lane = self._lanes.get(SegmentId(producer_id))
        if lane is not None:
            self._retreat(lane)

    def _retreat(self, lane: _Lane) -> None:
        lane.is_ready = False
        lane.held[:0] = lane.waiting.values()
        lane.waiting.clear()

    async def _open(self, number: SegmentId) -> None:
        lane, layout = self._lanes[number], self._layout
        assert layout is not None
        name = layout.get(number).name_in(scalable_name(self._topic)).full
        await self._line.create_producer(lane.producer_id, name)
        lane.is_ready = True
        self.opened_at = time.perf_counter()
        for place, payload in lane.held:
            self._write(lane, place, payload)
        lane.held.clear()

    def _send(self, place: int, payload: bytes) -> None:
        assert self._layout is not None
        lane = self._lanes[self._layout.find_active(place).id]
        if lane.is_ready:
            self._write(lane, place, payload)
        else:
            lane.held.append((place, payload))

    def _write(self, lane: _Lane, place: int, payload: bytes) -> None:
        self._line.write(self._line.encode_send(lane.producer_id, lane.sent, payload))
        lane.waiting[lane.sent] = (place, payload)
        lane.sent += 1

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        self.receipts.append(time.perf_counter())
        self._lanes[SegmentId(receipt.producer_id)].waiting.pop(receipt.sequence_id, None)
