"""Recorded conversations, and how to compare what two brokers say in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from magnetar.wire.command import BaseCommand, body_of, decode_command

GOLDEN = Path(__file__).resolve().parents[2] / "golden"

KEYS: Mapping[int, tuple[str, ...]] = {
    BaseCommand.CONNECTED: (),
    BaseCommand.SCALABLE_TOPIC_UPDATE: ("session_id",),
    BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE: ("consumer_id",),
    BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE: ("watch_id",),
    BaseCommand.MESSAGE: ("consumer_id",),
    BaseCommand.SEND_RECEIPT: ("producer_id", "sequence_id"),
    BaseCommand.CLOSE_PRODUCER: ("producer_id",),
    BaseCommand.CLOSE_CONSUMER: ("consumer_id",),
    BaseCommand.REACHED_END_OF_TOPIC: ("consumer_id",),
}
"""What tells commands of one type apart; the others answer a request."""


@dataclass(frozen=True)
class Line:
    connection: int
    event: str = ""
    is_client: bool = False
    command: BaseCommand | None = None
    payload: bytes = b""

    @property
    def body(self) -> Any:
        assert self.command is not None
        return body_of(self.command)

    @property
    def type(self) -> int | None:
        return None if self.command is None else self.command.type


def load_tape(name: str) -> Iterator[Line]:
    for text in (GOLDEN / f"{name}.jsonl").read_text().splitlines():
        fields = json.loads(text)
        if "event" in fields:
            yield Line(fields["c"], fields["event"])
        else:
            command = decode_command(bytes.fromhex(fields["cmd"]))
            payload = bytes.fromhex(fields.get("payload", ""))
            if command.type not in (BaseCommand.PING, BaseCommand.PONG):
                yield Line(fields["c"], "", fields["d"] == ">", command, payload)


def key_of(command: BaseCommand) -> tuple[Any, ...]:
    body: Any = body_of(command)
    names = KEYS.get(command.type, ("request_id",))
    return (command.type, *(getattr(body, name) for name in names))


def essence_of(command: BaseCommand) -> Any:
    """What two brokers must say alike; ids, addresses, times and sentences are each one's own."""
    body: Any = body_of(command)
    match command.type:
        case BaseCommand.CONNECTED:
            flags = body.feature_flags
            return body.protocol_version, body.max_message_size, flags.supports_scalable_topics
        case BaseCommand.LOOKUP_RESPONSE:
            return body.response
        case BaseCommand.SCALABLE_TOPIC_UPDATE:
            return body.resolved_topic_name, _essence_of_dag(body.dag), body.error
        case BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE:
            return _essence_of_assignment(body.assignment)
        case BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE:
            return body.HasField("error"), _essence_of_assignment(body.assignment)
        case BaseCommand.PRODUCER_SUCCESS:
            return body.last_sequence_id, body.schema_version, body.producer_ready
        case BaseCommand.SEND_RECEIPT:
            return body.highest_sequence_id % (2**64 - 1), body.message_id.entryId
        case BaseCommand.MESSAGE:
            message_id = body.message_id
            return message_id.entryId, message_id.partition, body.redelivery_count
        case BaseCommand.ERROR | BaseCommand.PARTITIONED_METADATA_RESPONSE:
            return body.error
        case _:
            return str(body)


def _essence_of_dag(dag: Any) -> Any:
    segments = [
        (
            each.segment_id,
            (each.hash_start, each.hash_end),
            each.state,
            tuple(each.parent_ids),
            tuple(each.child_ids),
            (each.created_at_epoch, each.HasField("sealed_at_ms"), each.sealed_at_epoch),
            each.legacy_topic_name,
        )
        for each in dag.segments
    ]
    served = sorted(each.segment_id for each in dag.segment_brokers)
    return dag.epoch, sorted(segments), served


def _essence_of_assignment(assignment: Any) -> Any:
    return assignment.layout_epoch, sorted(
        (
            each.segment_id,
            each.hash_start,
            each.hash_end,
            each.segment_topic,
            len(each.bucket_ranges),
        )
        for each in assignment.segments
    )
