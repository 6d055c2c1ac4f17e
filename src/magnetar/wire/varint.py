"""Numbers as protobuf spells them: seven bits a byte, the low ones first."""

from __future__ import annotations

from typing import Final

from magnetar.errors import ProtocolViolation


def spell_varint(number: int) -> bytes:
    """For a number that is not negative."""
    spelled = bytearray()
    while number > 0x7F:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    spelled.append(number)
    return bytes(spelled)


def spell_tag(field: int) -> bytes:
    """What stands before the length of a field that is text, bytes or a message."""
    return spell_varint(field << 3 | 2)


# Where many are written they come from tables: fourteen bits at a time, with and without a
# continuation.
WHOLE: Final = tuple(spell_varint(value) for value in range(1 << 14))
LOW: Final = tuple(bytes((value & 127 | 128, value >> 7 | 128)) for value in range(1 << 14))


def encode_varint(value: int) -> bytes:
    """The same, faster."""
    if value < 16384:
        return WHOLE[value]
    if value < 268435456:
        return LOW[value & 16383] + WHOLE[value >> 14]
    return LOW[value & 16383] + LOW[value >> 14 & 16383] + encode_varint(value >> 28)


_CYCLE: Final = bytes(range(128))
_CYCLE_ON: Final = bytes(range(128, 256))


def varint_bytes(value: int) -> int:
    """How many bytes a number takes that is not negative."""
    return max(1, (value.bit_length() + 6) // 7)


def varint_columns(first: int, count: int) -> list[bytes]:
    """Consecutive numbers that take as many bytes each, by columns: the first byte of all, then the
    second, and so on. This is as fast as the numbers are many.
    """
    end = first + count
    width = varint_bytes(first)
    assert varint_bytes(end - 1) == width, "numbers of the same length"
    cycle = _CYCLE if width == 1 else _CYCLE_ON
    low = first & 127
    columns = [(cycle * ((low + count + 127) // 128))[low : low + count]]
    for place in range(1, width):
        shift, flag = 7 * place, 128 if place < width - 1 else 0
        column = b""
        value = first
        while value < end:
            stop = min(end, ((value >> shift) + 1) << shift)
            column += bytes((value >> shift & 127 | flag,)) * (stop - value)
            value = stop
        columns.append(column)
    return columns


def read_varint(data: bytes, cursor: int) -> tuple[int, int]:
    """The number there, and where it ends. Raise IndexError when the data ends before."""
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
