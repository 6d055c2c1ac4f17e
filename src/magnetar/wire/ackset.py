"""Which messages of a batch are still unacknowledged, as bits.

Inside the project a set is one integer: bit i stands for batch index i, 1 for not acknowledged.
On the wire it is a list of signed 64-bit words, lowest first, without zero words at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

_WORD = 2**64 - 1


def full_ack_set(count: int) -> int:
    """The set of a batch of which nothing is acknowledged."""
    return (1 << count) - 1


def encode_ack_set(remaining: int) -> list[int]:
    words = []
    while remaining:
        word = remaining & _WORD
        words.append(word - 2**64 if word >= 2**63 else word)
        remaining >>= 64
    return words


def decode_ack_set(words: Sequence[int]) -> int:
    return int.from_bytes(
        b"".join((word & _WORD).to_bytes(8, "little") for word in words), "little"
    )
