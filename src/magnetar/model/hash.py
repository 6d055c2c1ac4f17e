"""The hash functions that clients and brokers must agree on."""

from __future__ import annotations

import mmh3

_POSITIVE = 0x7FFF_FFFF


def murmur3_32(data: bytes) -> int:
    """Murmur3, x86, 32 bits, seed 0, as an unsigned number."""
    return mmh3.hash(data, signed=False)


def murmur31(data: bytes) -> int:
    """Murmur3 without its sign bit."""
    return mmh3.hash(data, signed=False) & _POSITIVE


def java_hash31(text: str) -> int:
    """Java's String.hashCode without its sign bit: it counts UTF-16 units, not characters."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    return value & _POSITIVE


def sign_safe_mod(value: int, count: int) -> int:
    """A remainder from 0 to count - 1, whatever the sign of `value`."""
    return value % count
