from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.model.migration import (
    Backlog,
    ClassicClient,
    ClientKind,
    Preparation,
    Rehearsal,
)
from magnetar.model.name import parse_topic
from magnetar.rules.migrate import plan_migration
from magnetar.wire.migration import decode_preparation, encode_preparation, format_rehearsal
from magnetar.wire.scalable import decode_topic_record, encode_topic_record

TOPIC = parse_topic("persistent://t/n/x")
PLANNED = plan_migration(TOPIC, 3, now_ms=7, bucket_budget=4)
RECORD = replace(PLANNED, properties={"a": "b"})


def test_a_migrated_record_survives_its_spelling() -> None:
    assert decode_topic_record(encode_topic_record(RECORD)) == RECORD


def test_a_preparation_survives_its_spelling() -> None:
    preparation = Preparation(tuple(each.ref for each in RECORD.layout.active), 7)
    assert decode_preparation(encode_preparation(preparation)) == preparation


def test_a_damaged_preparation_is_unreadable() -> None:
    with pytest.raises(RecordUnreadable):
        decode_preparation(b'{"targets": 3}')


def test_a_rehearsal_tells_all_it_found() -> None:
    client = ClassicClient(ClientKind.CONSUMER, "c", str(TOPIC), "/h:1", "v", "s")
    rehearsal = Rehearsal(
        TOPIC,
        parse_topic("topic://t/n/x"),
        3,
        {"asked": "no", "met": ""},
        (client,),
        1,
        ("mind",),
        {str(TOPIC): "SEALED"},
        {"s": Backlog(10, 100, 2.5, 4.0), "idle": Backlog(1, 7, 0.0, None)},
    )
    assert format_rehearsal(rehearsal) == {
        "topic": "persistent://t/n/x",
        "scalableTopic": "topic://t/n/x",
        "partitions": 3,
        "ready": False,
        "checks": {"asked": "no", "met": ""},
        "refusals": ["no"],
        "newSegments": 1,
        "notes": ["mind"],
        "v4Clients": [
            {
                "type": "consumer",
                "name": "c",
                "topic": "persistent://t/n/x",
                "address": "/h:1",
                "clientVersion": "v",
                "subscription": "s",
            }
        ],
        "segments": {"persistent://t/n/x": "SEALED"},
        "subscriptions": {
            "idle": {"msgBacklog": 1, "backlogSize": 7, "msgRateOut": 0.0},
            "s": {"msgBacklog": 10, "backlogSize": 100, "msgRateOut": 2.5, "drainSeconds": 4.0},
        },
    }
