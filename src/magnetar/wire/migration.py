"""Preparations of migrations as JSON:

{"startedAtMs": 1700000000000, "targets": [{"segmentId": 4, "hashRange": {…}}, …]}
"""

from __future__ import annotations

import msgspec

from magnetar.model.answer.scalable import BacklogOutlook, LockedOutClient, MigrationCheck
from magnetar.model.migration import Backlog, ClassicClient, Preparation, Rehearsal
from magnetar.wire.field import decode_object, number_in, objects_in
from magnetar.wire.segment_record import format_ref, parse_ref


def encode_preparation(preparation: Preparation) -> bytes:
    value = {
        "startedAtMs": preparation.started_at_ms,
        "targets": [format_ref(ref) for ref in preparation.children],
    }
    return msgspec.json.encode(value)


def decode_preparation(data: bytes) -> Preparation:
    value = decode_object(data, "a migration")
    children = tuple(parse_ref(each) for each in objects_in(value, "targets"))
    return Preparation(children, number_in(value, "startedAtMs"))


def format_rehearsal(rehearsal: Rehearsal) -> MigrationCheck:
    """As REST answers."""
    return {
        "topic": rehearsal.topic.full,
        "scalableTopic": rehearsal.scalable.full,
        "partitions": rehearsal.partitions,
        "ready": not rehearsal.refusals,
        "checks": dict(rehearsal.checks),
        "refusals": list(rehearsal.refusals),
        "newSegments": rehearsal.new_segments,
        "notes": list(rehearsal.notes),
        "v4Clients": [_format_client(client) for client in rehearsal.clients],
        "segments": dict(rehearsal.segments),
        "subscriptions": {
            name: _format_backlog(backlog) for name, backlog in sorted(rehearsal.backlogs.items())
        },
    }


def _format_backlog(backlog: Backlog) -> BacklogOutlook:
    """Without an estimate when there is no reader."""
    value: BacklogOutlook = {
        "msgBacklog": backlog.entries,
        "backlogSize": backlog.size_bytes,
        "msgRateOut": round(backlog.rate_out_per_s, 3),
    }
    if backlog.drain_s is not None:
        value["drainSeconds"] = round(backlog.drain_s, 1)
    return value


def _format_client(client: ClassicClient) -> LockedOutClient:
    value: LockedOutClient = {
        "type": client.kind.value,
        "name": client.name,
        "topic": client.topic,
        "address": client.address,
        "clientVersion": client.version,
    }
    return value | ({"subscription": client.subscription} if client.subscription else {})
