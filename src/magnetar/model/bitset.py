"""Sets of small numbers as one integer, and as the signed 64-bit words that others write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_WORD_BYTES: Final = 8
_WORD_MASK: Final = 2**64 - 1


def split_words(bits: int) -> tuple[int, ...]:
    """Cut a bit mask into signed words, lowest first, without zero words at the end."""
    count = -(-bits.bit_length() // (8 * _WORD_BYTES))
    return struct.unpack(f"<{count}q", bits.to_bytes(count * _WORD_BYTES, "little"))


def join_words(words: Sequence[int]) -> int:
    """Join words, signed or not, to a bit mask."""
    data = struct.pack(f"<{len(words)}Q", *(word & _WORD_MASK for word in words))
    return int.from_bytes(data, "little")
