"""The hot path of the protocol, a socket read at a time.

One read carries tens to hundreds of SEND frames. `split_read` walks them in one loop and hands back
*runs*: consecutive frames of one producer as parallel lists, so that nothing but the entry's bytes
is made per message. Receipts and deliveries are written the same way, from prefixes that stay the
same within a run. Every other command is handed on as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from crc32c import crc32c

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import CommandSend, decode_command

_SIZES: Final = struct.Struct(">II")
_CHECKSUM: Final = struct.Struct(">HI")
_CHECKSUM_MAGIC: Final = 0x0E01
_SEND_OPENING: Final = b"\x08\x06\x32"
_ENTRY_BYTES_MIN: Final = 4


class SendRun:
    """Consecutive SENDs of one producer, as parallel lists.

    `command` is set when the run is one frame that asks for more than the usual fields; `corrupt`
    when it is one frame whose checksum does not match.
    """

    __slots__ = ("command", "corrupt", "counts", "entries", "highests", "producer_id", "sequences")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sequences: list[int] = []
        self.highests: list[int] = []
        self.counts: list[int] = []
        self.entries: list[bytes] = []
        self.command: CommandSend | None = None
        self.corrupt = False

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, sequence: int, highest: int, count: int, entry: bytes) -> None:
        self.sequences.append(sequence)
        self.highests.append(highest)
        self.counts.append(count)
        self.entries.append(entry)

    def select(self, indexes: Sequence[int]) -> SendRun:
        """The same run with only the entries at `indexes`."""
        chosen = SendRun(self.producer_id)
        chosen.sequences = [self.sequences[i] for i in indexes]
        chosen.highests = [self.highests[i] for i in indexes]
        chosen.counts = [self.counts[i] for i in indexes]
        chosen.entries = [self.entries[i] for i in indexes]
        chosen.command = self.command
        return chosen


Item: TypeAlias = SendRun | bytes
"""A run of SENDs, or the bytes of any other command."""


def split_read(data: bytes, frame_bytes_max: int) -> tuple[list[Item], int, int]:
    """Cut what was read into runs and commands.

    SENDs of one producer come together even when others' stand between them: only the order within
    a producer, and with regard to other commands, means anything.

    Return them with the number of bytes used up and the size of the frame that is still incomplete
    (0 when unknown). Frames that are whole are returned even when a bad one follows: the refusal
    then comes with the next call.
    """
    items: list[Item] = []
    position, size = 0, len(data)
    runs: dict[int, SendRun] = {}
    run_producer = -1
    view = memoryview(data)
    unpack_sizes, unpack_checksum = _SIZES.unpack_from, _CHECKSUM.unpack_from
    while size - position >= 8:
        total, command_size = unpack_sizes(data, position)
        if total + 4 > frame_bytes_max or command_size > total - 4:
            if items:
                return items, position, 0
            raise ProtocolViolation(
                f"a frame of {total} bytes with a command of {command_size} is refused;"
                f" at most {frame_bytes_max} bytes are allowed"
            )
        end = position + 4 + total
        if end > size:
            return items, position, total + 4
        start = position + 8
        body = start + command_size
        position = end
        if data[start : start + 3] != _SEND_OPENING:
            runs.clear()
            run_producer = -1
            items.append(data[start:body])
            continue
        # The usual SEND: producer id, sequence id, then perhaps a message count and a highest
        # sequence id.
        producer_id = -1
        highest, count = 0, 1
        try:
            if data[start + 3] == command_size - 4 and data[start + 4] == 0x08:
                value = data[start + 5]
                cursor = start + 6
                if value > 127:
                    value, cursor = _read_varint(data, start + 5)
                if data[cursor] == 0x10:
                    sequence = data[cursor + 1]
                    if sequence > 127:
                        sequence, cursor = _read_varint(data, cursor + 1)
                    else:
                        cursor += 2
                    producer_id = value
                    while cursor < body:
                        tag = data[cursor]
                        if tag == 0x18:
                            count, cursor = _read_varint(data, cursor + 1)
                        elif tag == 0x30:
                            highest, cursor = _read_varint(data, cursor + 1)
                        else:
                            break
                    if cursor != body:
                        producer_id = -1
        except IndexError:
            producer_id = -1
        if end - body < _ENTRY_BYTES_MIN:
            raise ProtocolViolation("a SEND without a message")
        if producer_id < 0:
            items.append(_unusual(data[start:body], data[body:end]))
            runs.clear()
            run_producer = -1
            continue
        if end - body >= 6:
            magic, checksum = unpack_checksum(data, body)
            if magic == _CHECKSUM_MAGIC and crc32c(view[body + 6 : end]) != checksum:
                bad = SendRun(producer_id)
                bad.add(sequence, highest, count, data[body:end])
                bad.corrupt = True
                items.append(bad)
                runs.clear()
                run_producer = -1
                continue
        if producer_id != run_producer:
            run = runs.get(producer_id)
            if run is None:
                run = runs[producer_id] = SendRun(producer_id)
                items.append(run)
            run_producer = producer_id
            sequences, highests = run.sequences, run.highests
            counts, entries = run.counts, run.entries
        sequences.append(sequence)
        highests.append(highest)
        counts.append(count)
        entries.append(data[body:end])
    return items, position, 0


def _read_varint(data: bytes, cursor: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[cursor]
        cursor += 1
        if byte < 128:
            return value | byte << shift, cursor
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise ProtocolViolation("a number of more than ten bytes")


def _unusual(command: bytes, entry: bytes) -> SendRun:
    """A SEND with fields the loop does not read: transaction, chunk, marker, message id, or another
    order of fields.
    """
    send = decode_command(command).send
    run = SendRun(send.producer_id)
    run.add(send.sequence_id, send.highest_sequence_id, send.num_messages, entry)
    if entry[:2] == b"\x0e\x01" and len(entry) >= 6:
        run.corrupt = crc32c(entry[6:]) != int.from_bytes(entry[2:6], "big")
    if (
        send.is_chunk
        or send.marker
        or send.HasField("message_id")
        or send.txnid_most_bits
        or send.txnid_least_bits
    ):
        run.command = send
    return run


# Numbers are written from tables: fourteen bits at a time, with and without a continuation.
def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_WHOLE: Final = tuple(_encode_varint(value) for value in range(1 << 14))
_LOW: Final = tuple(bytes((value & 127 | 128, value >> 7 | 128)) for value in range(1 << 14))


def encode_varint(value: int) -> bytes:
    if value < 16384:
        return _WHOLE[value]
    if value < 268435456:
        return _LOW[value & 16383] + _WHOLE[value >> 14]
    return _LOW[value & 16383] + _LOW[value >> 14 & 16383] + _encode_varint(value >> 28)


def encode_receipts(
    producer_id: int, sequences: Sequence[int], highests: Sequence[int], ledger_id: int, first: int
) -> bytes:
    """SEND_RECEIPT frames for a run whose entries stand one after the other from `first` on."""
    producer = b"\x08" + encode_varint(producer_id) + b"\x10"
    ledger = b"\x08" + encode_varint(ledger_id) + b"\x10"
    prefixes: dict[int, tuple[bytes, bytes]] = {}
    out: list[bytes] = []
    whole, low = _WHOLE, _LOW
    entry_id = first
    for sequence, highest in zip(sequences, highests, strict=True):
        if sequence < 16384:
            number = whole[sequence]
        elif sequence < 268435456:
            number = low[sequence & 16383] + whole[sequence >> 14]
        else:
            number = encode_varint(sequence)
        if entry_id < 16384:
            entry = whole[entry_id]
        else:
            entry = encode_varint(entry_id)
        entry_id += 1
        if highest:
            entry += b"\x20" + encode_varint(highest)
            message_size = len(ledger) + len(encode_varint(entry_id - 1))
        else:
            message_size = len(ledger) + len(entry)
        shape = len(number) << 16 | len(entry) << 8 | message_size
        known = prefixes.get(shape)
        if known is None:
            body_size = len(producer) + len(number) + 2 + len(ledger) + len(entry)
            opening = b"\x08\x07\x3a" + encode_varint(body_size)
            command_size = len(opening) + body_size
            known = prefixes[shape] = (
                _SIZES.pack(command_size + 4, command_size) + opening + producer,
                b"\x1a" + encode_varint(message_size) + ledger,
            )
        out.append(known[0] + number + known[1] + entry)
    return b"".join(out)


def encode_messages(
    consumer_id: int,
    ledger_id: int,
    first: int,
    entries: Sequence[bytes],
    *,
    partition: int = -1,
    epoch: int | None = None,
) -> list[bytes]:
    """MESSAGE frames for consecutive entries delivered for the first time: heads and entries by
    turns.
    """
    consumer = b"\x08" + encode_varint(consumer_id) + b"\x12"
    ledger = b"\x08" + encode_varint(ledger_id) + b"\x10"
    after = b"" if partition < 0 else b"\x18" + encode_varint(partition)
    tail = b"" if epoch is None else b"\x28" + encode_varint(epoch)
    out: list[bytes] = []
    pack = _SIZES.pack
    entry_id = first
    known_size = -1
    command_size = 0
    middle = b""
    for entry in entries:
        number = _WHOLE[entry_id] if entry_id < 16384 else encode_varint(entry_id)
        entry_id += 1
        if len(number) != known_size:
            known_size = len(number)
            message_size = len(ledger) + known_size + len(after)
            body_size = len(consumer) + 1 + message_size + len(tail)
            opening = b"\x08\x09\x4a" + encode_varint(body_size)
            command_size = len(opening) + body_size
            middle = opening + consumer + encode_varint(message_size) + ledger
        out.append(
            pack(4 + command_size + len(entry), command_size) + middle + number + after + tail
        )
        out.append(entry)
    return out


def encode_message(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    entry: bytes,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: Sequence[int] = (),
    epoch: int | None = None,
) -> bytes:
    """One MESSAGE frame with all it can carry."""
    message = b"\x08" + encode_varint(ledger_id) + b"\x10" + encode_varint(entry_id)
    if partition >= 0:
        message += b"\x18" + encode_varint(partition)
    body = b"\x08" + encode_varint(consumer_id) + b"\x12" + encode_varint(len(message)) + message
    if redelivery_count:
        body += b"\x18" + encode_varint(redelivery_count)
    for word in ack_set:
        body += b"\x20" + encode_varint(word & 0xFFFFFFFFFFFFFFFF)
    if epoch is not None:
        body += b"\x28" + encode_varint(epoch)
    command = b"\x08\x09\x4a" + encode_varint(len(body)) + body
    return _SIZES.pack(4 + len(command) + len(entry), len(command)) + command + entry


DELIVER_AT_TAG: Final = b"\x98\x01"
UUID_TAG: Final = b"\xd2\x01"


def may_carry(entry: bytes, tag: bytes) -> bool:
    """Whether a metadata field could be there: a cheap look that saves parsing most entries."""
    end = 10 + int.from_bytes(entry[6:10], "big") if entry[:2] == b"\x0e\x01" else len(entry)
    return entry.find(tag, 0, end) >= 0
