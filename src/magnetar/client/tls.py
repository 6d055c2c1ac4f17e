"""How a client makes sure of a broker, and shows it who it is."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from magnetar.client.authentication import Authentication, TlsAuthentication
from magnetar.client.error import ConfigurationError

if TYPE_CHECKING:
    import ssl


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
