"""The hash functions that clients and brokers must agree on."""

from __future__ import annotations

import mmh3

_POSITIVE = 0x7FFF_FFFF
_WORD = (1 << 64) - 1
_BOOST_STEP = 0x9E37_79B9_7F4A_7C15
_BOOST_FACTOR = 0xDF44_2D22_CE48_59B9


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


def boost_hash31(data: bytes) -> int:
    """How Boost 1.81 and later hash a string on 64 bits, without the sign bit of the low half."""
    state = _multiply(_BOOST_STEP)
    value = state ^ len(data)
    whole = len(data) & ~7
    words = [data[start : start + 8] for start in range(0, whole, 8)]
    for word in (*map(_little, words), _boost_rest(data[whole:])):
        state = state + _BOOST_STEP & _WORD
        value ^= _multiply(word + state)
    return _multiply(value + state) & _POSITIVE


def _multiply(value: int) -> int:
    """Both halves of a product, folded into one."""
    product = (value & _WORD) * _BOOST_FACTOR
    return product & _WORD ^ product >> 64


def _boost_rest(data: bytes) -> int:
    """What is left of fewer than eight bytes."""
    count = len(data)
    if count >= 4:
        return _little(data[-4:]) << 8 * (count - 4) | _little(data[:4])
    if not count:
        return 0
    last, middle = count - 1 & 2, count >> 1
    return data[last] << 8 * last | data[middle] << 8 * middle | data[0]


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def sign_safe_mod(value: int, count: int) -> int:
    """A remainder from 0 to count - 1, whatever the sign of `value`."""
    return value % count
