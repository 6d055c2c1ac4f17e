"""Passwords against what a `.htpasswd` file keeps of them: `$apr1$`, a thousand rounds of MD5.

It is weak by today's measure: the file is to be guarded like the passwords themselves. The other
form that Pulsar reads, the DES `crypt`, is refused: it looks at eight characters only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from magnetar.errors import InvalidConfiguration

_ALPHABET: Final = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_APR1: Final = re.compile(r"\$apr1\$([^$]{1,8})\$([./0-9A-Za-z]{22})")
_DES: Final = re.compile(r"[./0-9A-Za-z]{13}")
_ROUNDS: Final = 1000
_UNKNOWN_USER: Final = "$apr1$unknownx$......................"
"""Checked for users there are not: their refusal takes as long as any."""


def parse_htpasswd(text: str) -> dict[str, str]:
    """Stored passwords by user; InvalidConfiguration names a line by its number only."""
    users: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        user, separator, stored = line.partition(":")
        if not separator or not user or ":" in stored:
            raise InvalidConfiguration(f"basicAuthConf: line {number} is not user:password")
        if _DES.fullmatch(stored):
            raise InvalidConfiguration(
                f"basicAuthConf: the password in line {number} is a DES crypt, which is refused:"
                " set it again with htpasswd -m"
            )
        if not _APR1.fullmatch(stored):
            raise InvalidConfiguration(
                f"basicAuthConf: the password in line {number} is not $apr1$ (htpasswd -m)"
            )
        users[user] = stored
    return users


def is_password(users: Mapping[str, str], user: str, password: bytes) -> bool:
    stored = users.get(user, _UNKNOWN_USER)
    found = _APR1.fullmatch(stored)
    assert found is not None
    made = apr1(password, found[1].encode())
    return hmac.compare_digest(made.encode(), stored.encode()) and user in users


def apr1(password: bytes, salt: bytes) -> str:
    """Apache's variant of the MD5 crypt."""
    final = _md5(password + salt + password)
    start = password + b"$apr1$" + salt
    start += (final * (len(password) // 16 + 1))[: len(password)]
    bits = len(password)
    while bits:
        start += b"\0" if bits & 1 else password[:1]
        bits >>= 1
    digest = _md5(start)
    for turn in range(_ROUNDS):
        mixed = password if turn & 1 else digest
        if turn % 3:
            mixed += salt
        if turn % 7:
            mixed += password
        mixed += digest if turn & 1 else password
        digest = _md5(mixed)
    text = "".join(
        _encode64(digest[a] << 16 | digest[b] << 8 | digest[c], 4)
        for a, b, c in ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5))
    )
    return f"$apr1${salt.decode()}${text}{_encode64(digest[11], 2)}"


def _md5(data: bytes) -> bytes:
    # The form of the file demands it; nothing here trusts MD5 against collisions.
    return hashlib.md5(data, usedforsecurity=False).digest()


def _encode64(value: int, count: int) -> str:
    return "".join(_ALPHABET[value >> 6 * place & 63] for place in range(count))
