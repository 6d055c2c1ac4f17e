"""The login of a ZooKeeper client with a password: SASL with DIGEST-MD5 (RFC 2831).

The mechanism is old and proves no more than that both sides know the password; use it over TLS.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

_SERVICE: Final = "zookeeper/zk-sasl-md5"
"""The server has this name for the mechanism, whatever its host is called."""
_DIRECTIVE: Final = re.compile(r'([\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,\s]+))')
_COUNT: Final = "00000001"


@dataclass(frozen=True, slots=True)
class ZookeeperLogin:
    user: str
    password: str


class LoginRefused(Exception):
    """The server sent something else than the mechanism has, or does not know the password."""


class DigestLogin:
    """One login. The server sends a challenge, and then proves that it knows the password too."""

    def __init__(self, login: ZookeeperLogin, nonce: str) -> None:
        """`nonce` is a text of our own by chance."""
        self._login = login
        self._own = nonce
        self._expected = ""

    def respond(self, challenge: bytes) -> bytes:
        found = _parse(challenge)
        if "nonce" not in found or "auth" not in found.get("qop", "auth").split(","):
            raise LoginRefused("the server does not ask for DIGEST-MD5")
        realm, nonce = found.get("realm", ""), found["nonce"]
        self._expected = self._digest(realm, nonce, "")
        words = {
            "username": _quote(self._login.user),
            "realm": _quote(realm),
            "nonce": _quote(nonce),
            "cnonce": _quote(self._own),
            "nc": _COUNT,
            "qop": "auth",
            "digest-uri": _quote(_SERVICE),
            "response": self._digest(realm, nonce, "AUTHENTICATE"),
            "charset": "utf-8",
        }
        return ",".join(f"{name}={value}" for name, value in words.items()).encode()

    def verify(self, proof: bytes) -> None:
        if _parse(proof).get("rspauth") != self._expected:
            raise LoginRefused("the server does not know the password")

    def _digest(self, realm: str, nonce: str, method: str) -> str:
        secret = _hash(f"{self._login.user}:{realm}:{self._login.password}".encode())
        session = _hash(secret + f":{nonce}:{self._own}".encode()).hex()
        asked = _hash(f"{method}:{_SERVICE}".encode()).hex()
        return _hash(f"{session}:{nonce}:{_COUNT}:{self._own}:auth:{asked}".encode()).hex()


def _parse(token: bytes) -> dict[str, str]:
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _DIRECTIVE.findall(token.decode("utf-8", "replace"))
    }


def _hash(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
