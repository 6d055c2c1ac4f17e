"""The traditional `crypt` of Unix: DES, 25 times over, its expansion disturbed by a salt.

The tables are those of FIPS 46-3. They are joined once into lookups, so that a check takes about
a millisecond.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_ALPHABET: Final = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# fmt: off
_FINAL = (40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62,
          30, 37, 5, 45, 13, 53, 21, 61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19,
          59, 27, 34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9, 49, 17, 57, 25)
_CHOICE_1 = (57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19,
             11, 3, 60, 52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6,
             61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4)
_CHOICE_2 = (14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13,
             2, 41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50,
             36, 29, 32)
_SHIFTS = (1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1)
_PERMUTATION = (16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27,
                3, 9, 19, 13, 30, 6, 22, 11, 4, 25)
_BOXES = (
    "e4d12fb83a6c5907" "0f74e2d1a6cb9538" "41e8d62bfc973a50" "fc8249175b3ea06d",
    "f18e6b34972dc05a" "3d47f28ec01a69b5" "0e7ba4d158c6932f" "d8a13f42b67c05e9",
    "a09e63f51dc7b428" "d709346a285ecbf1" "d6498f30b12c5ae7" "1ad069874fe3b52c",
    "7de3069a1285bc4f" "d8b56f03472c1ae9" "a690cb7df13e5284" "3f06a1d8945bc72e",
    "2c417ab6853fd0e9" "eb2c47d150fa3986" "421bad78f9c5630e" "b8c71e2d6f09a453",
    "c1af92680d34e75b" "af427c9561de0b38" "9ef528c3704a1db6" "432c95fabe17608d",
    "4b2ef08d3c975a61" "d0b7491ae35c2f86" "14bdc37eaf680592" "6bd814a7950fe23c",
    "d2846fb1a93e50c7" "1fd8a374c56b0e92" "7b419ce206adf358" "21e74a8dfc90356b",
)
# fmt: on


def _permute(value: int, width: int, table: tuple[int, ...]) -> int:
    result = 0
    for place in table:
        result = result << 1 | value >> width - place & 1
    return result


@cache
def _lookups() -> tuple[tuple[int, ...], ...]:
    """For each S-box: what its six bits of input add to the 32 bits of a round."""
    tables = []
    for number, box in enumerate(_BOXES):
        table = []
        for bits in range(64):
            row, column = bits >> 4 & 2 | bits & 1, bits >> 1 & 15
            spread = int(box[row * 16 + column], 16) << 28 - 4 * number
            table.append(_permute(spread, 32, _PERMUTATION))
        tables.append(tuple(table))
    return tuple(tables)


def _round_keys(password: bytes) -> list[tuple[int, int]]:
    key = 0
    for octet in password[:8].ljust(8, b"\0"):
        key = key << 8 | (octet << 1) & 0xFF
    chosen = _permute(key, 64, _CHOICE_1)
    left, right = chosen >> 28, chosen & 0xFFFFFFF
    keys = []
    for shift in _SHIFTS:
        left = (left << shift | left >> 28 - shift) & 0xFFFFFFF
        right = (right << shift | right >> 28 - shift) & 0xFFFFFFF
        whole = _permute(left << 28 | right, 56, _CHOICE_2)
        keys.append((whole >> 24, whole & 0xFFFFFF))
    return keys


def _salt_mask(salt: str) -> int:
    """The salt's bits, lowest first, swap bits of the two halves of the expansion."""
    value = _ALPHABET.index(salt[0]) | _ALPHABET.index(salt[1]) << 6
    return sum(1 << 23 - place for place in range(12) if value >> place & 1)


def des_crypt(password: bytes, salt: str) -> str:
    """Thirteen characters: the salt, then the password as the key over a block of zeros."""
    a, b, c, d, e, f, g, h = _lookups()
    mask = _salt_mask(salt)
    keys = _round_keys(password)
    left = right = 0
    for _ in range(25):
        for high_key, low_key in keys:
            wrapped = (right & 1) << 33 | right << 1 | right >> 31
            high = (
                (wrapped >> 28 & 63) << 18
                | (wrapped >> 24 & 63) << 12
                | (wrapped >> 20 & 63) << 6
                | wrapped >> 16 & 63
            )
            low = (
                (wrapped >> 12 & 63) << 18
                | (wrapped >> 8 & 63) << 12
                | (wrapped >> 4 & 63) << 6
                | wrapped & 63
            )
            swapped = (high ^ low) & mask
            high ^= swapped ^ high_key
            low ^= swapped ^ low_key
            left, right = (
                right,
                left
                ^ (
                    a[high >> 18]
                    ^ b[high >> 12 & 63]
                    ^ c[high >> 6 & 63]
                    ^ d[high & 63]
                    ^ e[low >> 18]
                    ^ f[low >> 12 & 63]
                    ^ g[low >> 6 & 63]
                    ^ h[low & 63]
                ),
            )
        left, right = right, left
    block = _permute(left << 32 | right, 64, _FINAL) << 2
    return salt + "".join(_ALPHABET[block >> 60 - 6 * place & 63] for place in range(11))
