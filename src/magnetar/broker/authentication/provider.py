"""The contract of a provider: a credential in, an identity out, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from magnetar.rules.handshake import Identity


@dataclass(frozen=True, slots=True)
class Credential:
    """What came over one connection or with one request; each provider takes what it knows."""

    data: bytes | None = field(default=None, repr=False)
    """Of CONNECT or AUTH_RESPONSE."""
    header: str | None = field(default=None, repr=False)
    """Of HTTP: `Authorization`."""
    certificate_name: str | None = None
    """The common name of a certificate that the TLS handshake verified."""


class Provider(Protocol):
    @property
    def method(self) -> str:
        """The name clients choose it by."""

    def is_slow(self, credential: Credential) -> bool:
        """Whether to judge it takes so long that other clients would have to wait: more than about
        a millisecond.
        """

    def authenticate(self, credential: Credential, *, now_ms: int) -> Identity:
        """Raise Unauthenticated, with a sentence that repeats nothing of the credential."""
