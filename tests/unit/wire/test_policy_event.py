"""Events of topic policies: the bytes that Apache Pulsar 5.0.0-M1 wrote, and ours."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import fastavro
import pytest
from msgspec.structs import replace

from magnetar.errors import BadRequest, InvalidName, RecordUnreadable
from magnetar.model.choice import BacklogQuotaType
from magnetar.model.name import parse_topic
from magnetar.model.policy import BacklogQuota, TopicPolicies
from magnetar.wire.policy_event import (
    EVENT_SCHEMA,
    Action,
    PolicyEvent,
    decode_event,
    encode_event,
    encode_event_key,
)

SAMPLE = Path(__file__).parent / "sample"
ORDERS = parse_topic("persistent://t/n/orders")
KEY = "persistent://t/n/orders"
DEFINITION = EVENT_SCHEMA.definition


def recorded() -> list[tuple[str, bytes]]:
    lines = (SAMPLE / "change-events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [(event["key"], base64.b64decode(event["value"])) for event in events]


def event_with(**changes: object) -> bytes:
    """An event whose fields are not what we would write."""
    event = {"eventType": "TOPIC_POLICY", "actionType": "UPDATE", **changes}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(DEFINITION)), event)
    return buffer.getvalue()


def test_the_schema_is_the_one_that_pulsar_registers() -> None:
    registered = json.loads((SAMPLE / "change-events-schema.json").read_text())
    assert registered["type"] == EVENT_SCHEMA.type.name
    assert registered["data"].encode() == DEFINITION
    assert registered["properties"] == EVENT_SCHEMA.properties


def test_what_pulsar_wrote_is_read_and_written_again_to_the_byte() -> None:
    fields: set[str] = set()
    for key, value in recorded():
        event = decode_event(key, value, DEFINITION)
        assert event is not None
        assert encode_event_key(event.topic, is_global=event.is_global) == key
        if event.policies is None:
            assert (event.action, value) == (Action.DELETE, b"")
            continue
        assert event.policies.isGlobal == event.is_global
        assert encode_event(event.topic, event.policies, cluster="standalone") == value
        for field in event.policies.__struct_fields__:
            if getattr(event.policies, field) != getattr(TopicPolicies(), field):
                fields.add(field)
    assert (
        set(TopicPolicies.__struct_fields__) - fields == {"entryFilters", "shadowTopics"} - fields
    )


def test_an_event_without_a_value_says_that_policies_are_gone() -> None:
    gone = PolicyEvent(ORDERS, True, Action.DELETE, None)
    assert decode_event(f"__G__{KEY}", b"", DEFINITION) == gone


def test_an_old_event_of_deletion_says_so_too() -> None:
    inner = {"tenant": "t", "namespace": "n", "domain": "persistent", "topic": "orders"}
    value = event_with(actionType="DELETE", topicPoliciesEvent={**inner, "policies": {}})
    gone = PolicyEvent(ORDERS, False, Action.DELETE, None)
    assert decode_event(KEY, value, DEFINITION) == gone


def test_events_about_other_things_are_none_of_ours() -> None:
    assert (
        decode_event(KEY, event_with(eventType="TRANSACTION_BUFFER_SNAPSHOT"), DEFINITION) is None
    )
    assert (
        decode_event(KEY, event_with(actionType="NONE", topicPoliciesEvent={}), DEFINITION) is None
    )


def test_fields_that_a_later_schema_adds_are_left_out() -> None:
    later = json.loads(DEFINITION)
    later["fields"].append({"name": "more", "type": ["null", "string"], "default": None})
    value = encode_event(ORDERS, TopicPolicies(messageTTLInSeconds=5), cluster="c") + b"\x00"
    event = decode_event(KEY, value, json.dumps(later).encode())
    assert event is not None
    assert event.policies == TopicPolicies(messageTTLInSeconds=5)


@pytest.mark.parametrize("value", [b"\x00", b"\xff" * 40, b"{}", b"\x02\x04\x02\x00\x00\x02\x02"])
def test_a_value_that_is_no_event_cannot_be_read(value: bytes) -> None:
    with pytest.raises(RecordUnreadable, match="event"):
        decode_event(KEY, value, DEFINITION)


def test_a_schema_that_is_none_cannot_be_read() -> None:
    with pytest.raises(RecordUnreadable):
        decode_event(KEY, b"\x02\x04", b'{"type": "nonsense"}')


def test_a_key_must_name_a_topic() -> None:
    with pytest.raises(InvalidName):
        decode_event("magic://a/b/c", b"", DEFINITION)


def test_a_quota_written_under_its_new_name_has_the_old_one_too() -> None:
    quota = BacklogQuota(limitSize=9, limitTime=3)
    policies = TopicPolicies(backLogQuotaMap={BacklogQuotaType.DESTINATION_STORAGE: quota})
    event = decode_event(KEY, encode_event(ORDERS, policies, cluster="c"), DEFINITION)
    assert event is not None and event.policies is not None
    found = event.policies.backLogQuotaMap[BacklogQuotaType.DESTINATION_STORAGE]
    assert found == replace(quota, limit=9)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    policies = TopicPolicies(offloadPolicies={"managedLedgerOffloadMaxThreads": "many"})
    with pytest.raises(BadRequest):
        encode_event(ORDERS, policies, cluster="c")
