"""Numbers as protobuf spells them: seven bits a byte, the low ones first."""

from __future__ import annotations


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
