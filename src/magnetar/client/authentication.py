"""Who the client says it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Authentication(Protocol):
    """Asked on every connect, and again when the broker wants fresh credentials."""

    @property
    def method(self) -> str: ...

    def data(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class NoAuthentication:
    method: str = "none"

    def data(self) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """A token, or a function that gives a fresh one each time."""

    token: str | Callable[[], str]
    method: str = "token"

    def data(self) -> bytes:
        token = self.token if isinstance(self.token, str) else self.token()
        return token.encode()

    def __repr__(self) -> str:
        return "TokenAuthentication(…)"
