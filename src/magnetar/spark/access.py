"""Who a query or a job is, and whom it trusts; carried to every process that connects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magnetar import (
    Admin,
    Authentication,
    BasicAuthentication,
    ConfigurationError,
    TlsAuthentication,
    TlsPolicy,
    TokenAuthentication,
)
from magnetar.runtime.credential import load_text

_FIELDS: Final = (
    "token",
    "basic",
    "tls_trust",
    "tls_cert",
    "tls_key",
    "tls_insecure",
    "tls_any_host",
)
OPTIONS: Final = {
    name: name.split("_")[0] + "".join(word.title() for word in name.split("_")[1:])
    for name in _FIELDS
}
"""What is said about it: on the command line, and as an option of source and sink."""


@dataclass(frozen=True, slots=True)
class Access:
    """Files are read where a connection is made, and each time: all machines must have them."""

    token: str | None = None
    """The token itself, or `file:PATH` or `env:NAME`."""
    basic: str | None = None
    """user:password, or where it is."""
    tls_trust: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_insecure: bool = False
    tls_any_host: bool = False

    def __post_init__(self) -> None:
        if self.token and self.basic:
            raise ConfigurationError("Give one of token and basic")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ConfigurationError("tlsCert and tlsKey belong together")

    @property
    def authentication(self) -> Authentication | None:
        if self.token:
            place = self.token
            return TokenAuthentication(lambda: load_text("token", place))
        if self.basic:
            user, separator, password = load_text("basic", self.basic).partition(":")
            if not separator:
                raise ConfigurationError("basic is user:password")
            return BasicAuthentication(user, password)
        if self.tls_cert and self.tls_key:
            return TlsAuthentication(self.tls_cert, self.tls_key)
        return None

    @property
    def tls(self) -> TlsPolicy:
        return TlsPolicy(
            trust_certs=self.tls_trust,
            certificate=self.tls_cert,
            key=self.tls_key,
            allow_insecure=self.tls_insecure,
            verify_hostname=not self.tls_any_host,
        )

    @property
    def options(self) -> dict[str, str]:
        """As source and sink take it."""
        given = {option: getattr(self, name) for name, option in OPTIONS.items()}
        return {
            option: "true" if value is True else value for option, value in given.items() if value
        }


ANONYMOUS: Final = Access()


def access_of(options: Mapping[str, Any]) -> Access:
    """What was said on the command line; not all jobs take all of it."""
    return Access(**{name: options[name] for name in OPTIONS if options.get(name)})


def open_admin(url: str, access: Access, *, timeout_s: float = 30.0) -> Admin:
    return Admin(url, authentication=access.authentication, tls=access.tls, timeout=timeout_s)
