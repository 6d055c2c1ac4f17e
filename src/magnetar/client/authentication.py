"""Who the client says it is, and how it makes sure of a broker."""

from __future__ import annotations

import base64
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from magnetar.client.error import AuthenticationError, ConfigurationError, PulsarError

if TYPE_CHECKING:
    import ssl

Supplier: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]


class Authentication(Protocol):
    """Asked on every connect, and again when the broker wants fresh credentials.

    A method of several steps also has `respond(challenge)`, and one that the admin client can use
    `http_headers()`.
    """

    @property
    def method_name(self) -> str: ...

    def auth_data(self, host: str) -> bytes | Awaitable[bytes]:
        """What to show the broker at `host`; may be a coroutine function."""


@runtime_checkable
class ChallengedAuthentication(Protocol):
    """Answers what the broker asks in between; may be a coroutine function."""

    def respond(self, challenge: bytes) -> bytes | Awaitable[bytes]: ...


@runtime_checkable
class HttpAuthentication(Protocol):
    """Says by itself what a request carries."""

    def http_headers(self) -> Mapping[str, str]: ...


_REFRESH: Final = b"PulsarAuthRefresh"
"""What a broker asks who wants fresh credentials."""


@dataclass(frozen=True, slots=True)
class NoAuthentication:
    method_name: str = "none"

    def auth_data(self, host: str) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class TokenAuthentication:
    """A token, or a function that gives a fresh one each time; it may be a coroutine function."""

    token: str | Supplier = field(repr=False)
    method_name: str = field(default="token", init=False)

    def auth_data(self, host: str) -> bytes | Awaitable[bytes]:
        if isinstance(self.token, str):
            return self.token.encode()
        given = self.token()
        return _encode_later(given) if inspect.isawaitable(given) else _encode(given)


@dataclass(frozen=True, slots=True)
class BasicAuthentication:
    user: str
    password: str = field(repr=False)
    method_name: str = field(default="basic", init=False)

    def __post_init__(self) -> None:
        if not self.user or ":" in self.user or ":" in self.password:
            raise ConfigurationError("A user and a password are needed, both without a colon")

    def auth_data(self, host: str) -> bytes:
        return f"{self.user}:{self.password}".encode()


@dataclass(frozen=True, slots=True)
class TlsAuthentication:
    """A client certificate and its key, as PEM files: the certificate's common name is the role."""

    certificate: str | Path
    key: str | Path
    method_name: str = field(default="tls", init=False)

    def auth_data(self, host: str) -> bytes:
        return b""


async def load_data(authentication: Authentication, host: str, challenge: bytes = b"") -> bytes:
    """Ask for credentials; the sentence of a failure does not contain them."""
    try:
        if challenge in (b"", _REFRESH) or not isinstance(authentication, ChallengedAuthentication):
            data = authentication.auth_data(host)
        else:
            data = authentication.respond(challenge)
        return await data if inspect.isawaitable(data) else data
    except PulsarError:
        raise
    # A supplier is the application's own code and may raise anything.
    except Exception as error:
        raise AuthenticationError(
            f"The credentials could not be had: {type(error).__name__}"
        ) from error


async def http_headers(
    authentication: Authentication | None,
    host: str,
    wait_for: Callable[[Awaitable[bytes]], Awaitable[bytes]],
) -> dict[str, str]:
    """What a request carries; `wait_for` gets what a coroutine function supplies."""
    if isinstance(authentication, HttpAuthentication):
        return dict(authentication.http_headers())
    if authentication is None or authentication.method_name in ("none", "tls"):
        return {}
    data = authentication.auth_data(host)
    if not isinstance(data, bytes):
        data = await wait_for(data)
    if authentication.method_name == "basic":
        return {"Authorization": f"Basic {base64.b64encode(data).decode()}"}
    return {"Authorization": f"Bearer {data.decode('latin-1')}"}


def _encode(token: object) -> bytes:
    if not isinstance(token, str):
        raise AuthenticationError("A supplier of tokens gives text")
    return token.encode()


async def _encode_later(token: Awaitable[str]) -> bytes:
    return _encode(await token)


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """Files are PEM; they are read again for every new connection, so that they can be renewed."""

    trust_certs: str | Path | None = None
    """Who may sign a broker's certificate; None leaves it to the system."""
    certificate: str | Path | None = None
    key: str | Path | None = None
    allow_insecure: bool = False
    """Take any certificate from anybody: for trying things out."""
    verify_hostname: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("A client certificate needs both its file and its key's")

    def _find_bad(self) -> str:
        """The file that cannot be opened: the library does not say which."""
        given = [str(each) for each in (self.trust_certs, self.certificate, self.key) if each]
        return next((each for each in given if not os.access(each, os.R_OK)), ", ".join(given))

    def load(self) -> ssl.SSLContext:
        """Raise ConfigurationError for a file that is missing or unreadable."""
        import ssl

        if self.trust_certs is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self.trust_certs is not None:
                context.load_verify_locations(cafile=self.trust_certs)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except ssl.SSLError as error:
            raise ConfigurationError(f"TLS: {error.reason or 'not a PEM file'}") from None
        except OSError as error:
            raise ConfigurationError(
                f"TLS: {self._find_bad()}: {error.strerror or error}"
            ) from None
        context.check_hostname = self.verify_hostname and not self.allow_insecure
        if self.allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        return context


Tls: TypeAlias = "TlsPolicy | ssl.SSLContext"


def with_certificate(tls: Tls | None, authentication: Authentication | None) -> Tls:
    """The policy that also shows the certificate of a `TlsAuthentication`."""
    policy = TlsPolicy() if tls is None else tls
    if isinstance(policy, TlsPolicy) and isinstance(authentication, TlsAuthentication):
        return replace(policy, certificate=authentication.certificate, key=authentication.key)
    return policy


def load_tls(tls: Tls) -> ssl.SSLContext:
    return tls.load() if isinstance(tls, TlsPolicy) else tls
