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
    return LOW[value & 16383] + LOW[value >> 14 & 16383] + spell_varint(value >> 28)


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
