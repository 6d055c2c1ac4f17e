from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import (
    FIELD_NAMES,
    BaseCommand,
    CommandSubscribe,
    KeyValue,
    body_of,
    decode_command,
    encode_command,
    make_command,
)

UNSIGNED = st.integers(0, 2**64 - 1)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
SUBSCRIBES = st.builds(
    CommandSubscribe,
    topic=TEXT,
    subscription=TEXT,
    subType=st.sampled_from(["Exclusive", "Shared", "Failover", "Key_Shared"]),
    consumer_id=UNSIGNED,
    request_id=UNSIGNED,
    consumer_name=st.none() | TEXT,
    priority_level=st.none() | st.integers(-(2**31), 2**31 - 1),
    durable=st.none() | st.booleans(),
    metadata=st.lists(st.builds(KeyValue, key=TEXT, value=TEXT), max_size=3),
)


@given(SUBSCRIBES)
def test_a_command_comes_back_as_it_was(subscribe: CommandSubscribe) -> None:
    frame = encode_command(make_command(subscribe))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == len(frame) - 8
    assert body_of(decode_command(frame[8:])) == subscribe


def _decode_or_refuse(data: bytes) -> None:
    try:
        command = decode_command(data)
    except ProtocolViolation:
        return
    assert command.IsInitialized()
    assert command.HasField(FIELD_NAMES[command.type])
    str(command)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_command_or_refused(data: bytes) -> None:
    _decode_or_refuse(data)


@given(st.sampled_from(sorted(FIELD_NAMES)), st.binary(max_size=60))
@example(BaseCommand.PING, b"")
def test_an_arbitrary_body_is_a_command_or_refused(number: int, body: bytes) -> None:
    # the tag of a length-delimited field is its number, shifted by three, plus 2, in base 128
    key = number << 3 | 2
    tag = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
    _decode_or_refuse(bytes([8, number]) + tag + bytes([len(body)]) + body)


@given(SUBSCRIBES, st.data())
def test_a_damaged_command_is_a_command_or_refused(
    subscribe: CommandSubscribe, data: st.DataObject
) -> None:
    content = bytearray(make_command(subscribe).SerializeToString())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(content))
