from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from magnetar.broker.handler.permission import NEEDS
from magnetar.errors import BrokerError, MagnetarError
from magnetar.model.limit import Limits
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand, KeyValue, body_of, decode_command
from magnetar.wire.limit import CHECKS, check_command, unchecked_bytes
from magnetar.wire.refusal import encode_refusal

PLAIN = (BaseCommand.PING, BaseCommand.PONG, BaseCommand.SEND)
KINDS = [kind for kind in NEEDS if kind not in PLAIN]
"""Every command that a client may send, but SEND: of that, the loop reads numbers alone."""
SMALL = Limits(
    command_bytes=1 << 20,
    connect_frame_bytes=2000,
    schema_bytes=2000,
    message_ids=100,
    batch_messages=6400,
    hash_ranges=100,
)
TOO_MANY = 70_000


def leaves(kind: Descriptor, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields whose size a client chooses, however deep; a message in itself counts twice."""
    if path and path[-3:] == path[-1:] * 3:
        return
    for field in kind.fields:
        here = (*path, field.name)
        if field.is_repeated or field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            yield here
        if field.message_type is not None:
            yield from leaves(field.message_type, here)


def body_kind(kind: int) -> Descriptor:
    found: Descriptor = BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type
    return found


def fill(message: Message, path: tuple[str, ...], size: int) -> None:
    """Make one field large; what stands above it is made once."""
    field: FieldDescriptor = message.DESCRIPTOR.fields_by_name[path[0]]
    value = getattr(message, path[0])
    if len(path) > 1:
        fill(value.add() if field.is_repeated else value, path[1:], size)
    elif field.is_repeated:
        for _ in range(size):
            if field.message_type is not None:
                value.add()
            else:
                value.append("x" if field.type == field.TYPE_STRING else 1)
    elif field.type == field.TYPE_STRING:
        setattr(message, path[0], "ä" * (size // 2))
    else:
        setattr(message, path[0], b"x" * size)


def check(limits: Limits, command: BaseCommand) -> None:
    check_command(limits, command, command.SerializePartialToString())


CASES = [(kind, path) for kind in KINDS for path in leaves(body_kind(kind))]


@pytest.mark.parametrize(
    ("kind", "path"), CASES, ids=lambda each: ".".join(each) if isinstance(each, tuple) else None
)
def test_no_field_of_a_command_may_be_as_large_as_a_client_likes(
    kind: int, path: tuple[str, ...]
) -> None:
    command = BaseCommand(type=BaseCommand.Type.Name(kind))
    body = body_of(command)
    fill(body, path, TOO_MANY)
    with pytest.raises(MagnetarError) as caught:
        check(SMALL, command)
    assert len(caught.value.sentence) < 400


def test_the_table_names_no_field_that_is_not_there() -> None:
    names = {body_kind(kind).name: body_kind(kind) for kind in KINDS}
    for kind, checks in CHECKS.items():
        assert checks.keys() <= set(names[kind].fields_by_name), kind


@pytest.mark.parametrize("words", [1562, 1564])
@pytest.mark.parametrize("word", [0, -1])
def test_a_long_ack_set_is_found_among_many_ids(words: int, word: int) -> None:
    ids = [wire.MessageIdData(ledgerId=1, entryId=i) for i in range(500)]
    ids[250].ack_set.extend([word] * words)
    command = wire.make_command(
        wire.CommandAck(consumer_id=1, ack_type="Individual", message_id=ids)
    )
    if words > Limits().batch_messages // 64 + 1:
        with pytest.raises(MagnetarError):
            check(Limits(), command)
    else:
        check(Limits(), command)


def test_a_packed_ack_set_is_found_too() -> None:
    long = wire.MessageIdData(ledgerId=1, entryId=1, ack_set=[1] * 2000).SerializeToString()
    head = wire.MessageIdData(ledgerId=1, entryId=1).SerializeToString()
    packed = head + b"\x2a\xd0\x0f" + b"\x01" * 2000
    assert wire.MessageIdData.FromString(packed) == wire.MessageIdData.FromString(long)
    ack = wire.CommandAck(consumer_id=1, ack_type="Individual").SerializeToString()
    ack += b"\x1a" + b"\xd7\x0f" + packed
    assert len(packed) == 0x7D7
    command = wire.make_command(wire.CommandAck.FromString(ack))
    with pytest.raises(MagnetarError):
        check_command(Limits(), command, ack)


@pytest.mark.parametrize("limits", [Limits(), SMALL])
def test_a_command_too_short_to_be_checked_breaks_no_limit(limits: Limits) -> None:
    """Each field alone, as large as it can be in so few bytes."""
    size = unchecked_bytes(limits)
    for kind, path in CASES:
        for count in range(size, 0, -1):
            command = BaseCommand(type=BaseCommand.Type.Name(kind))
            fill(body_of(command), path, count)
            if len(command.SerializePartialToString()) <= size:
                check(limits, command)
                break
        else:
            pytest.fail(f"{path} fits into no command of {size} bytes")


def test_what_clients_send_is_within_the_defaults() -> None:
    limits = Limits()
    subscribe = wire.CommandSubscribe(
        topic="persistent://tenant/namespace/" + "t" * 1024 + "-partition-1234567890",
        subscription="s" * 512,
        subType=wire.CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=1,
        consumer_name="c" * 512,
        metadata=[KeyValue(key="k" * 24, value="v" * 1000)],
        subscription_properties=[KeyValue(key=f"{i:04d}", value="v" * 60) for i in range(1000)],
    )
    check(limits, wire.make_command(subscribe))
    lookup = wire.CommandScalableTopicLookup(
        topic="segment://t/n/" + "x" * 1024 + "/0000-7FFF-12", session_id=1
    )
    check(limits, wire.make_command(lookup))
    ids = [wire.MessageIdData(ledgerId=1 << 50, entryId=i) for i in range(50_000)]
    redeliver = wire.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids)
    command = wire.make_command(redeliver)
    check(limits, command)
    assert command.ByteSize() < limits.command_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_the_answer_that_the_client_waits_for(kind: int) -> None:
    """Where a command has an answer at all, it names the request, the code and the reason."""
    command = BaseCommand(type=BaseCommand.Type.Name(kind))
    body = body_of(command)
    body.SetInParent()
    ids = {
        name: number
        for number, name in enumerate(("request_id", "session_id", "watch_id", "consumer_id"), 7)
        if name in body.DESCRIPTOR.fields_by_name
    }
    for name, number in ids.items():
        setattr(body, name, number)
    refusal = BrokerError.__subclasses__()[0]("so it is")
    answer = encode_refusal(command, refusal)
    if answer is None:
        assert "request_id" not in ids
        return
    decoded = body_of(decode_command(answer.SerializeToString()))
    fields = {field.name: value for field, value in decoded.ListFields()}
    assert "so it is" in fields.values()
    for name, number in ids.items():
        if name in decoded.DESCRIPTOR.fields_by_name:
            assert fields[name] == number


def test_an_acknowledgement_that_waits_for_no_answer_gets_none() -> None:
    ack = wire.CommandAck(consumer_id=1, ack_type=wire.CommandAck.Individual)
    assert encode_refusal(wire.make_command(ack), BrokerError.__subclasses__()[0]("x")) is None
