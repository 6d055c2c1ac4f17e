"""Which messages of a batch are still unacknowledged, as bits.

Inside the project a set is one integer: bit i stands for batch index i, 1 for not acknowledged.
On the wire it is a list of signed 64-bit words, lowest first, without zero words at the end.
"""

from __future__ import annotations

from typing import Final

from magnetar.model.bitset import join_words, split_words

MESSAGES_MAX: Final = 1 << 20
"""No batch is taken to hold more, whatever its metadata says."""

decode_ack_set = join_words


def encode_ack_set(remaining: int) -> list[int]:
    return list(split_words(remaining))


def full_ack_set(count: int) -> int:
    """The set of a batch of which nothing is acknowledged."""
    return (1 << min(count, MESSAGES_MAX)) - 1
