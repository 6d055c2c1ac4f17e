"""The hot path of the protocol, a socket read at a time.

One read carries tens to hundreds of SEND frames. `gather_runs` walks them in one loop and makes
*runs*: consecutive frames of one producer as parallel lists, so that nothing but the entry's bytes
is made per message. Frames that differ in little more than their sequence id, as those of a busy
producer do, are looked at together, by columns. Deliveries (`wire.delivery`) and receipts
(`wire.receipt`) are written the same way, from prefixes that stay the same within a run. Every
other command is handed on as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

from crc32c import crc32c

from magnetar.errors import BrokerError, ProtocolViolation
from magnetar.model.position import Position
from magnetar.model.transaction import TransactionId
from magnetar.wire.command import CommandSend, decode_command
from magnetar.wire.frame import Stretch, count_alike
from magnetar.wire.varint import read_varint, varint_bytes, varint_columns

_CHECKSUM: Final = struct.Struct(">HI")
_CHECKSUM_MAGIC: Final = 0x0E01
_MAGIC: Final = b"\x0e\x01"
_SEND_OPENING: Final = b"\x08\x06\x32"
_HEAD_END: Final = 15
"""Where the head of a frame ends if its producer id takes one byte, and the sequence id begins."""
_HEAD_BYTES: Final = _HEAD_END - 4
_HEADS_MAX: Final = 4096
"""How many are remembered: a producer has one for each length of its sequence ids."""
_PRODUCER_TAG, _SEQUENCE_TAG, _COUNT_TAG, _HIGHEST_TAG = 0x08, 0x10, 0x18, 0x30
_LEAST_TAG, _MOST_TAG = 0x20, 0x28
_TRANSACTED_TAGS: Final = frozenset((_COUNT_TAG, _LEAST_TAG, _MOST_TAG, _HIGHEST_TAG))
_RESTS_MAX: Final = 4096
_make: Final = tuple.__new__
"""Of a named tuple too, without a detour."""
_ENTRY_BYTES_MIN: Final = 4
_COLUMNS_MIN: Final = 32
"""Fewer frames are faster one by one."""


class Sender(Protocol):
    """Where the answer to a run goes."""

    def on_durable(self, run: SendRun, first: Position) -> None: ...
    def on_refused(self, run: SendRun, error: BrokerError) -> None: ...


class SendRun:
    """Consecutive SENDs of one producer and at most one transaction, as parallel lists: one object
    from the socket to the receipts.

    `command` is set when the run is one frame that asks for more than the usual fields; `corrupt`
    when it is one frame whose checksum does not match.
    """

    __slots__ = (
        "command",
        "corrupt",
        "counts",
        "entries",
        "highests",
        "most",
        "producer_id",
        "reply_to",
        "sequences",
        "size",
        "transaction",
    )

    size: int
    """The sum of the entries' lengths; set with `reply_to`, by the owner of the producer."""
    reply_to: Sender

    def __init__(self, producer_id: int) -> None:
        self.producer_id: Final = producer_id
        self.sequences: list[int] = []
        self.highests: list[int] = []
        self.counts: list[int] = []
        self.most = 1
        """The largest of the counts."""
        self.entries: list[bytes] = []
        self.command: CommandSend | None = None
        self.corrupt = False
        self.transaction: TransactionId | None = None
        """What all its messages belong to; (0,0) is one."""

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
        chosen.most = max(chosen.counts)
        chosen.command = self.command
        chosen.transaction = self.transaction
        return chosen

    def on_durable(self, first: Position) -> None:
        self.reply_to.on_durable(self, first)

    def on_refused(self, error: BrokerError) -> None:
        self.reply_to.on_refused(self, error)


Item: TypeAlias = SendRun | bytes
"""A run of SENDs, or the bytes of any other command."""


@lru_cache(maxsize=_HEADS_MAX)
def _parse_head(head: bytes) -> tuple[int, int, int] | None:
    """Of a SEND that names its producer, then its sequence id, as clients do: the producer id,
    where in the frame the sequence id begins, and how many bytes of the command are left there.
    """
    command_size = int.from_bytes(head[:4], "big")
    if len(head) < _HEAD_BYTES or head[7] != command_size - 4 or head[7] > 127:
        return None
    producer_id, place = head[9], _HEAD_END
    if head[8] != _PRODUCER_TAG:
        return None
    if producer_id > 127 > head[10]:
        producer_id += (head[10] << 7) - 128
        place += 1
    elif producer_id > 127 or head[10] != _SEQUENCE_TAG:
        return None
    left = command_size - (place - 8)
    return None if left < 1 else (producer_id, place, left)


class _Gathering:
    """The runs of one read. A producer's frames begin alike: what was found out about the first
    holds for the others.
    """

    __slots__ = (
        "alike",
        "alike_head",
        "heads",
        "items",
        "rare",
        "runs",
        "transacted",
        "transacted_heads",
    )

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.heads: dict[bytes, tuple[SendRun, list[int], list[bytes], int, int]] = {}
        """By the bytes up to the sequence id: the run, its lists, where the sequence id stands and
        how many bytes of the command are left there.
        """
        self.runs: dict[int, SendRun] = {}
        self.rare: list[tuple[SendRun, int, int, int]] = []
        """Entries that are batches: run, index, highest sequence id, number of messages."""
        self.transacted: dict[int, SendRun] = {}
        """The last run of each producer that is of a transaction."""
        self.transacted_heads: set[bytes] = set()
        self.alike_head = b""
        """How the last SEND of a transaction began, while others may be like it."""
        self.alike: tuple[SendRun, int, bytes]
        """Its run, where the sequence id stands, and what of the command follows that."""

    def recognize(self, head: bytes) -> tuple[SendRun, list[int], list[bytes], int, int] | None:
        """The run that a frame belongs to, if it is the usual SEND."""
        is_usual = head[4:7] == _SEND_OPENING and head not in self.transacted_heads
        found = _parse_head(head) if is_usual else None
        if found is None:
            return None
        producer_id, place, left = found
        run = self.runs.get(producer_id)
        if run is None:
            run = self.runs[producer_id] = SendRun(producer_id)
            self.items.append(run)
        known = self.heads[head] = (run, run.sequences, run.entries, place, left)
        return known

    def add_stretch(
        self, data: bytes, view: memoryview, start: int, length: int, frames: int
    ) -> int:
        """Take frames of the same sizes, as many of the first ones as are the usual SEND of one
        producer with consecutive sequence ids; return how many. They are looked at by columns: a
        byte of all of them at a time.
        """
        head = data[start + 4 : start + _HEAD_END]
        known = self.heads.get(head) or self.recognize(head)
        if known is None:
            return 0
        _, sequences, entries, place, left = known
        cursor, body = start + place, start + place + left
        first, highest, _ = _read_numbers(data, cursor, body)
        entry_size = start + length - body
        is_usual = first >= 0 and not highest and varint_bytes(first) == left
        is_checked = entry_size >= 6 and data[body : body + 2] == _MAGIC
        if not is_usual or not is_checked or data[cursor - 1] != _SEQUENCE_TAG:
            return 0
        frames = min(frames, (1 << 7 * left) - first)
        frames = count_alike(data, start + 8, cursor, period=length, count=frames)
        frames = count_alike(data, body, body + 2, period=length, count=frames)
        for column, expected in enumerate(varint_columns(first, frames), cursor):
            if data[column : column + (frames - 1) * length + 1 : length] != expected:
                return 0
        checked = range(body + 6, body + 6 + frames * length, length)
        rest = entry_size - 6
        checksums = struct.pack(f">{frames}I", *[crc32c(view[at : at + rest]) for at in checked])
        for column in range(4):
            place = body + 2 + column
            if data[place : place + (frames - 1) * length + 1 : length] != checksums[column::4]:
                return 0
        sequences += range(first, first + frames)
        entries += [
            data[at : at + entry_size] for at in range(body, body + frames * length, length)
        ]
        return frames

    def add_alike(self, data: bytes, view: memoryview, start: int, body: int, end: int) -> bool:
        """Take a SEND that differs from the last one of a transaction in little but its sequence
        id; return whether it is one.
        """
        run, place, rest = self.alike
        cursor = start + place
        if data[cursor - 1] != _SEQUENCE_TAG:
            return False
        sequence = data[cursor]
        cursor += 1
        if sequence > 127:
            sequence += (data[cursor] << 7) - 128
            cursor += 1
            if sequence > 16383:
                sequence += (data[cursor] << 14) - 16384
                cursor += 1
                if sequence > 2097151:
                    return False
        if data[cursor:body] != rest or end - body < 6:
            return False
        magic, checksum = _CHECKSUM.unpack_from(data, body)
        if magic != _CHECKSUM_MAGIC or crc32c(view[body + 6 : end]) != checksum:
            return False
        plain = self.runs.get(run.producer_id)
        if plain is not None and plain.entries:
            return False
        run.add(sequence, run.highests[-1], run.counts[-1], data[body:end])
        return True

    def add_transacted(self, send: _Transacted, entry: bytes) -> SendRun:
        """Behind everything that its producer sent before."""
        producer_id, sequence, _, highest, messages, id_ = send
        run, plain = self.transacted.get(producer_id), self.runs.get(producer_id)
        is_behind = plain is not None and bool(plain.entries)
        if run is None or run.transaction != id_ or is_behind:
            run = self.transacted[producer_id] = SendRun(producer_id)
            run.transaction = id_
            self.items.append(run)
            self.runs.pop(producer_id, None)  # what follows without a transaction is behind this
            self.heads.clear()
        run.add(sequence, highest, messages, entry)
        if messages > run.most:
            run.most = messages
        return run

    def add_other(self, item: Item) -> None:
        """What follows this must not be done before it."""
        self.items.append(item)
        self.heads.clear()
        self.runs.clear()
        self.transacted.clear()
        self.alike_head = b""

    def finish(self) -> list[Item]:
        for item in self.items:
            if type(item) is SendRun and not item.counts:
                count = len(item.entries)
                item.highests, item.counts = [0] * count, [1] * count
        for run, index, highest, count in self.rare:
            run.highests[index], run.counts[index] = highest, max(1, count)
            run.most = max(run.most, count)
        # A producer's first frame may have turned out to be unusual.
        return [item for item in self.items if not isinstance(item, SendRun) or item.entries]


def gather_runs(data: bytes, stretches: Sequence[Stretch]) -> list[Item]:
    """Runs and commands of the frames that stand in what was read.

    SENDs of one producer come together even when others' stand between them: only the order within
    a producer, and with regard to other commands, means anything.
    """
    gathering = _Gathering()
    heads, rare = gathering.heads, gathering.rare
    view = memoryview(data)
    unpack_checksum = _CHECKSUM.unpack_from
    last_head = b""
    for start, length, command_size, frames in stretches:
        if frames > _COLUMNS_MIN:
            taken = gathering.add_stretch(data, view, start, length, frames)
            start += length * taken
            frames -= taken
        while frames:
            frames -= 1
            body = start + 8 + command_size
            end = start + length
            head = data[start + 4 : start + _HEAD_END]
            if head != last_head:
                is_alike = head == gathering.alike_head
                if is_alike and gathering.add_alike(data, view, start, body, end):
                    start = end
                    continue
                known = heads.get(head) or gathering.recognize(head)
                if known is None:
                    _add_unusual(gathering, head, data[start + 8 : body], data[body:end])
                    last_head = b""
                    start = end
                    continue
                run, sequences, entries, place, left = known
                last_head = head
            cursor = start + place
            highest, count = 0, 1
            sequence = data[cursor]
            if place != _HEAD_END and data[cursor - 1] != _SEQUENCE_TAG:
                sequence = -1
            elif left == 3 and sequence > 127 and data[cursor + 1] > 127 > data[cursor + 2]:
                sequence += (data[cursor + 1] << 7) + (data[cursor + 2] << 14) - 16512
            elif left == 2 and sequence > 127 > data[cursor + 1]:
                sequence += (data[cursor + 1] << 7) - 128
            elif left != 1 or sequence > 127:
                sequence, highest, count = _read_numbers(data, cursor, body)
            if end - body >= 6:
                magic, checksum = unpack_checksum(data, body)
                if magic == _CHECKSUM_MAGIC and crc32c(view[body + 6 : end]) != checksum:
                    sequence = -1
            elif end - body < _ENTRY_BYTES_MIN:
                raise ProtocolViolation("a SEND without a message")
            if sequence < 0:
                _add_unusual(gathering, head, data[start + 8 : body], data[body:end])
                last_head = b""
            else:
                if highest or count != 1:
                    rare.append((run, len(entries), highest, count))
                sequences.append(sequence)
                entries.append(data[body:end])
            start = end
    return gathering.finish()


def _read_numbers(data: bytes, cursor: int, end: int) -> tuple[int, int, int]:
    """Sequence id, highest sequence id and message count; the first is -1 when there is more."""
    highest, count = 0, 1
    try:
        sequence, cursor = read_varint(data, cursor)
        while cursor < end:
            tag = data[cursor]
            if tag == _COUNT_TAG:
                count, cursor = read_varint(data, cursor + 1)
            elif tag == _HIGHEST_TAG:
                highest, cursor = read_varint(data, cursor + 1)
            else:
                break
    except IndexError:
        return -1, 0, 1
    return (sequence, highest, count) if cursor == end else (-1, 0, 1)


class _Transacted(NamedTuple):
    """A SEND that asks for nothing but to be part of a transaction."""

    producer_id: int
    sequence: int
    rest_at: int
    """Where the command goes on behind the sequence id."""
    highest: int
    messages: int
    id: TransactionId


def _read_transacted(command: bytes) -> _Transacted | None:
    """None: it is another command, or asks for more. Clients write fields in order, each once."""
    head = _parse_head(len(command).to_bytes(4, "big") + command[: _HEAD_BYTES - 4])
    if head is None or command[:3] != _SEND_OPENING:
        return None
    producer_id, place, _ = head
    if command[place - 9] != _SEQUENCE_TAG:
        return None
    try:
        sequence, cursor = read_varint(command, place - 8)
    except IndexError:
        return None
    rest = _parse_rest(command[cursor:])
    return None if rest is None else _make(_Transacted, (producer_id, sequence, cursor, *rest))


@lru_cache(maxsize=_RESTS_MAX)
def _parse_rest(rest: bytes) -> tuple[int, int, TransactionId] | None:
    """What follows the sequence id: the highest one, the number of messages, the transaction."""
    found: dict[int, int] = {}
    cursor, end = 0, len(rest)
    try:
        while cursor < end:
            tag = rest[cursor]
            if tag in found or tag not in _TRANSACTED_TAGS:
                return None
            found[tag], cursor = read_varint(rest, cursor + 1)
    except IndexError:
        return None
    least, most = found.get(_LEAST_TAG), found.get(_MOST_TAG)
    if least is None or most is None:
        return None
    highest, count = found.get(_HIGHEST_TAG, 0), max(1, found.get(_COUNT_TAG, 1))
    return highest, count, TransactionId(most, least)


def _add_unusual(gathering: _Gathering, head: bytes, command: bytes, entry: bytes) -> None:
    """Another command, a SEND whose checksum is wrong, or one with fields the loop does not read:
    transaction, chunk, marker, message id, or another order of fields.
    """
    if command[:3] != _SEND_OPENING:
        gathering.add_other(command)
        return
    if len(entry) < _ENTRY_BYTES_MIN:
        raise ProtocolViolation("a SEND without a message")
    is_corrupt = (
        entry[:2] == _MAGIC
        and len(entry) >= 6
        and crc32c(entry[6:]) != int.from_bytes(entry[2:6], "big")
    )
    transacted = None if is_corrupt else _read_transacted(command)
    if transacted is not None:
        gathering.transacted_heads.add(head)  # others that begin so are not read as plain first
        run, found = gathering.add_transacted(transacted, entry), _parse_head(head)
        if found is not None:
            gathering.alike = run, found[1], command[transacted.rest_at :]
            gathering.alike_head = head
        return
    send = decode_command(command).send
    run = SendRun(send.producer_id)
    run.corrupt = is_corrupt
    run.most = max(1, send.num_messages)
    run.add(send.sequence_id, send.highest_sequence_id, run.most, entry)
    if send.HasField("txnid_most_bits") and send.HasField("txnid_least_bits"):
        run.transaction = TransactionId(send.txnid_most_bits, send.txnid_least_bits)
    if send.is_chunk or send.marker or send.HasField("message_id"):
        run.command = send
    gathering.add_other(run)
