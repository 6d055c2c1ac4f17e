from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import (
    CommandSend,
    CommandSendReceipt,
    MessageIdData,
    MessageMetadata,
    decode_command,
    encode_payload_command,
    make_command,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.send import RECEIPT_HEAD, PlainSend, decode_receipt, encode_send


@pytest.mark.parametrize(("producer_id", "sequence_id"), [(0, 0), (7, 300), (2**40, 2**63)])
def test_a_send_is_spelled_as_any_other_command(producer_id: int, sequence_id: int) -> None:
    command = make_command(CommandSend(producer_id=producer_id, sequence_id=sequence_id))
    expected = encode_payload_command(command, b"entry")
    assert encode_send(producer_id, sequence_id, b"entry") == expected


@pytest.mark.parametrize("schema_version", [b"", bytes(8)])
@pytest.mark.parametrize("sequence_id", [0, 127, 128, 16384, 2**64 - 1])
def test_a_plain_send_is_spelled_as_any_other(sequence_id: int, schema_version: bytes) -> None:
    plain = PlainSend(2**64 - 1, "a-name", schema_version)
    for now_ms, payload in ((1, b"first"), (1_700_000_000_000, b""), (1_700_000_000_000, b"x")):
        metadata = MessageMetadata(
            producer_name="a-name",
            sequence_id=sequence_id,
            publish_time=now_ms,
            schema_version=schema_version or None,
        )
        expected = encode_send(2**64 - 1, sequence_id, encode_entry(metadata, payload))
        assert plain.encode(sequence_id, payload, now_ms=now_ms) == expected


def test_a_receipt_is_read_as_any_other_command() -> None:
    id = MessageIdData(ledgerId=1, entryId=2)
    receipt = CommandSendReceipt(producer_id=3, sequence_id=4, message_id=id)
    data = make_command(receipt).SerializeToString()
    assert data.startswith(RECEIPT_HEAD)
    assert decode_receipt(data) == receipt == decode_command(data).send_receipt


@pytest.mark.parametrize("rest", [b"", b"\x3a\x00", b"\x3a\x02\x08\x01", b"\xff"])
def test_a_receipt_that_says_too_little_is_refused(rest: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_receipt(RECEIPT_HEAD + rest)
