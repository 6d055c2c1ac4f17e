"""A scripted broker with one scalable topic: it stores what is sent to each segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.errors import WireCode
from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.scalable import AssignedSegment, ConsumerAssignment, LayoutView
from magnetar.model.segment import SegmentId, parse_segment
from magnetar.wire.batch import decode_batch
from magnetar.wire.command import (
    CommandCloseProducer,
    CommandConnected,
    CommandProducerSuccess,
    CommandScalableTopicAssignmentUpdate,
    CommandScalableTopicSubscribeResponse,
    CommandScalableTopicUpdate,
    FeatureFlags,
    ScalableTopicDAG,
    ServerError,
    error,
    send_error,
    success,
)
from magnetar.wire.entry import decode_entry
from magnetar.wire.layout import encode_assignment, encode_dag
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

TOPIC = "topic://public/default/t"
QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.01))


def number_of(topic: str) -> SegmentId:
    """The segment that a client attaches to; partition K of a regular topic is segment K."""
    name = parse_topic(topic)
    return SegmentId(name.partition_index) if name.is_partition else parse_segment(name).id


class ScalablePeer:
    """Seals, layouts and assignments happen when a test says so."""

    def __init__(self, broker: ScriptedBroker, segments: int) -> None:
        self.broker = broker
        self.layout = Layout.initial(segments, now_ms=0)
        self.stored: dict[SegmentId, list[tuple[str, int]]] = defaultdict(list)
        """Key and number of each message, by segment."""
        self.version = "scripted"
        self.sealed: set[SegmentId] = set()
        self.held: list[tuple[Line, Any, bytes]] = []
        """Sends that are neither stored nor refused yet, while `is_holding`."""
        self.is_holding = False
        self.watches: list[tuple[Line, int]] = []
        self.registered: list[tuple[Line, Any]] = []
        self.assignment = ConsumerAssignment(0)
        self._producers: dict[tuple[int, int], SegmentId] = {}
        broker.on[Type.CONNECT] = lambda line, body, _: line.say(
            CommandConnected(
                server_version=self.version,
                protocol_version=21,
                feature_flags=FeatureFlags(supports_scalable_topics=True),
            )
        )
        broker.on[Type.SCALABLE_TOPIC_LOOKUP] = self.on_lookup
        broker.on[Type.SCALABLE_TOPIC_SUBSCRIBE] = self.on_register
        broker.on[Type.PRODUCER] = self.on_producer
        broker.on[Type.SEND] = self.on_send
        broker.on[Type.CLOSE_PRODUCER] = self.on_close_producer

    def client(self, **options: Any) -> AsyncPulsarClient:
        return AsyncPulsarClient(self.broker.url, operation_timeout=5, connection=QUICK, **options)

    def on_lookup(self, line: Line, body: Any, _: bytes) -> None:
        self.watches.append((line, body.session_id))
        self.tell(line, body.session_id)

    def tell(self, line: Line, session_id: int) -> None:
        line.say(
            CommandScalableTopicUpdate(
                session_id=session_id,
                dag=ScalableTopicDAG.FromString(encode_dag(LayoutView(self.layout))),
                resolved_topic_name=TOPIC,
            )
        )

    def publish(self, layout: Layout) -> None:
        self.layout = layout
        for line, session_id in self.watches:
            self.tell(line, session_id)

    def refuse_watch(self, code: WireCode) -> None:
        line, session_id = self.watches[-1]
        line.say(
            CommandScalableTopicUpdate(
                session_id=session_id, error=ServerError.Name(code), message="gone"
            )
        )

    def on_register(self, line: Line, body: Any, _: bytes) -> None:
        self.registered.append((line, body))
        response = CommandScalableTopicSubscribeResponse(request_id=body.request_id)
        response.assignment.CopyFrom(encode_assignment(self.assignment))
        line.say(response)

    def assign(self, *numbers: int) -> None:
        """To whoever registered last; also what is answered from now on."""
        topic = parse_topic(TOPIC)
        segments = [self.layout.by_id[SegmentId(number)] for number in numbers]
        self.assignment = ConsumerAssignment(
            self.layout.epoch,
            tuple(
                AssignedSegment(each.id, each.range, each.name_in(topic).full) for each in segments
            ),
        )
        if self.registered:
            line, body = self.registered[-1]
            line.say(
                CommandScalableTopicAssignmentUpdate(
                    consumer_id=body.consumer_id, assignment=encode_assignment(self.assignment)
                )
            )

    def on_producer(self, line: Line, body: Any, _: bytes) -> None:
        number = number_of(body.topic)
        if number in self.sealed:
            line.say(error(body.request_id, WireCode.TOPIC_TERMINATED, "sealed"))
            return
        self._producers[id(line), body.producer_id] = number
        line.say(
            CommandProducerSuccess(
                request_id=body.request_id, producer_name=body.producer_name, schema_version=b""
            )
        )

    def on_send(self, line: Line, send: Any, entry: bytes) -> None:
        if self.is_holding:
            self.held.append((line, send, entry))
            return
        number = self._producers[id(line), send.producer_id]
        if number in self.sealed:
            refusal = send_error(
                send.producer_id, send.sequence_id, WireCode.TOPIC_TERMINATED, "sealed"
            )
            line.say(refusal)
            return
        self.store(number, send, entry)
        self.broker.receipt(line, send)

    def store(self, number: SegmentId, send: Any, entry: bytes) -> None:
        metadata, payload = decode_entry(entry)
        if metadata.HasField("num_messages_in_batch"):
            for single, data in decode_batch(payload, metadata.num_messages_in_batch):
                self.stored[number].append((single.partition_key, int(data)))
        else:
            self.stored[number].append((metadata.partition_key, int(payload)))

    def release(self, count: int | None = None) -> None:
        """Answer what was held, as things stand now; all of it, or the first ones only."""
        taken, self.held = self.held[:count], self.held[count:] if count is not None else []
        held, self.is_holding = self.is_holding, False
        for line, send, entry in taken:
            self.on_send(line, send, entry)
        self.is_holding = held

    def seal(self, *numbers: int, says_so: bool = True) -> None:
        """Take no more; `says_so` sends the producers away, as brokers do."""
        for number in numbers:
            self.sealed.add(SegmentId(number))
            if says_so:
                for (place, producer_id), segment in tuple(self._producers.items()):
                    if segment == number:
                        for line in self.broker.lines:
                            if id(line) == place:
                                body = CommandCloseProducer(producer_id=producer_id, request_id=0)
                                line.say(body)

    def on_close_producer(self, line: Line, body: Any, _: bytes) -> None:
        line.say(success(body.request_id))

    def numbers_by_key(self) -> dict[str, list[int]]:
        """In the order in which a consumer that follows the layout would see them."""
        found: dict[str, list[int]] = defaultdict(list)
        for number in sorted(self.stored):
            for key, value in self.stored[number]:
                found[key].append(value)
        return found


@asynccontextmanager
async def scalable_peer(segments: int = 1) -> AsyncIterator[ScalablePeer]:
    async with scripted_broker() as broker:
        yield ScalablePeer(broker, segments)
