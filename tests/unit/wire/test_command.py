from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation, WireCode
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.scalable import BrokerAddress
from magnetar.wire import command as wire
from magnetar.wire.command import (
    FIELD_NAMES,
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandConnect,
    CommandError,
    CommandLookupTopic,
    CommandPing,
    CommandSend,
    CommandSubscribe,
    MessageIdData,
    ServerError,
    body_of,
    close_consumer,
    close_producer,
    decode_command,
    encode_command,
    encode_payload_command,
    error,
    make_command,
    message_id,
    ping,
    pong,
    position_of,
    send_error,
    signed64,
    success,
    unsigned64,
)


def test_a_ping_carries_its_empty_body() -> None:
    assert encode_command(ping()).hex() == "00000009000000050812920100"
    assert encode_command(pong()).hex() == "000000090000000508139a0100"


def test_a_request_id_of_minus_one_is_the_largest_unsigned_number() -> None:
    expected = "0000001600000012081082010d080310ffffffffffffffffff01"
    assert encode_command(close_consumer(3)).hex() == expected
    assert decode_command(bytes.fromhex(expected)[8:]).close_consumer.request_id == 2**64 - 1


def test_a_payload_part_follows_its_command() -> None:
    send = make_command(CommandSend(producer_id=1, sequence_id=0))
    entry = bytes.fromhex("0e017ed8df46000000070a0170100018016869")
    expected = "0000001f0000000808063204080110000e017ed8df46000000070a0170100018016869"
    assert encode_payload_command(send, entry).hex() == expected


def test_every_type_has_a_body_of_its_own() -> None:
    assert set(FIELD_NAMES) == set(BaseCommand.Type.values())
    assert len(set(FIELD_NAMES.values())) == len(FIELD_NAMES) == 70
    assert FIELD_NAMES[BaseCommand.LOOKUP] == "lookupTopic"
    assert FIELD_NAMES[BaseCommand.WATCH_TC_ASSIGNMENTS_CLOSE] == "watchTcAssignmentsClose"


def test_a_body_is_wrapped_and_found_again() -> None:
    lookup = CommandLookupTopic(topic="persistent://public/default/t", request_id=7)
    command = decode_command(encode_command(make_command(lookup))[8:])
    assert command.type == BaseCommand.LOOKUP
    assert body_of(command) == lookup


def test_a_command_is_read_from_a_view() -> None:
    assert decode_command(memoryview(encode_command(success(9)))[8:]).success.request_id == 9


def test_the_replies_say_what_they_were_given() -> None:
    assert error(5, WireCode.TOPIC_NOT_FOUND, "no such topic").error == CommandError(
        request_id=5, error=ServerError.TopicNotFound, message="no such topic"
    )
    refusal = send_error(1, 2, WireCode.CHECKSUM, "broken").send_error
    assert (refusal.producer_id, refusal.sequence_id) == (1, 2)
    assert (refusal.error, refusal.message) == (ServerError.ChecksumError, "broken")
    closed = close_producer(4, BrokerAddress("pulsar://h:1")).close_producer
    assert (closed.producer_id, closed.request_id) == (4, 2**64 - 1)
    assert closed.assignedBrokerServiceUrl == "pulsar://h:1"
    assert close_consumer(4).close_consumer == CommandCloseConsumer(
        consumer_id=4, request_id=2**64 - 1
    )


def test_the_wire_codes_are_the_numbers_of_the_protocol() -> None:
    assert {code.value for code in WireCode} == set(ServerError.values())


@pytest.mark.parametrize(
    "data",
    [
        b"",  # no type
        b"\xff\xff\xff",  # not a message at all
        b"\x08\x7f",  # a type nobody knows
        b"\x08\x12",  # a PING without its body
        b"\x08\x06\x92\x01\x00",  # a SEND with a PING's body
        b"\x08\x06\x32\x02\x08\x01",  # a SEND without a sequence id
        b"\x08\x06\x32\x04\x08\x01\x10",  # cut short
        b"\x08\x0a\x52\x06\x08\x01\x10\x07\x1a\x00",  # an ACK of a type nobody knows
    ],
)
def test_a_malformed_command_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_command(data)


def test_a_required_field_missing_deep_inside_is_refused() -> None:
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
    ack.message_id.add(ledgerId=3)
    with pytest.raises(ProtocolViolation):
        decode_command(make_command(ack).SerializePartialToString())


@pytest.mark.parametrize(
    "body",
    [
        CommandConnect(client_version="#"),
        CommandSubscribe(
            topic="t",
            subscription="s",
            subType=CommandSubscribe.Shared,
            consumer_id=1,
            request_id=1,
            metadata=[{"key": "k", "value": "#"}],
        ),
    ],
)
def test_text_that_is_not_utf_8_is_refused(body: CommandConnect | CommandSubscribe) -> None:
    data = make_command(body).SerializeToString()
    assert decode_command(data) == make_command(body)
    with pytest.raises(ProtocolViolation, match="UTF-8"):
        decode_command(data.replace(b"#", b"\xff"))


def test_a_list_with_text_that_is_not_utf_8_is_refused() -> None:
    command = make_command(
        wire.CommandGetTopicsOfNamespaceResponse(request_id=1, topics=["fine", "#"])
    )
    with pytest.raises(ProtocolViolation, match="UTF-8"):
        decode_command(command.SerializeToString().replace(b"#", b"\xc3"))


def test_negative_numbers_travel_as_unsigned() -> None:
    assert unsigned64(-1) == 2**64 - 1
    assert [signed64(unsigned64(n)) for n in (-1, 0, 5, 2**63 - 1)] == [-1, 0, 5, 2**63 - 1]


def test_a_position_is_spelled_without_defaults() -> None:
    assert message_id(Position(3, 4)) == MessageIdData(ledgerId=3, entryId=4)
    assert not message_id(Position(3, 4)).HasField("partition")
    full = message_id(Position(3, 4), partition=0, batch_index=2)
    assert (full.partition, full.batch_index) == (0, 2)


@pytest.mark.parametrize("position", [EARLIEST, LATEST, Position(5, -1), Position(0, 0)])
def test_a_position_comes_back(position: Position) -> None:
    assert position_of(message_id(position)) == position


def test_the_door_names_everything_it_opens() -> None:
    assert len(set(wire.__all__)) == len(wire.__all__)
    assert all(hasattr(wire, name) for name in wire.__all__)
    assert make_command(CommandPing()) == ping()
    generated = BaseCommand.DESCRIPTOR.file
    names = {*generated.message_types_by_name, *generated.enum_types_by_name}
    assert names <= set(wire.__all__)
