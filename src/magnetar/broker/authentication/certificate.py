"""Client certificates: the TLS handshake verified them, their common name is the role."""

from __future__ import annotations

from typing import Final

from magnetar.broker.authentication.provider import Credential
from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.rules.handshake import Identity
from magnetar.runtime.configuration import Configuration


class CertificateProvider:
    method: Final = "tls"

    def is_slow(self, credential: Credential) -> bool:
        return False

    def authenticate(self, credential: Credential, *, now_ms: int) -> Identity:
        if not credential.certificate_name:
            raise Unauthenticated("Client unable to authenticate with TLS certificate")
        return Identity(credential.certificate_name)


def make_certificate_provider(config: Configuration) -> CertificateProvider:
    if config.tlsAllowInsecureConnection:
        raise InvalidConfiguration(
            "tlsAllowInsecureConnection takes unverified certificates: with the tls"
            " provider anybody could be anyone; leave one of them out"
        )
    if not config.tlsTrustCertsFilePath:
        raise InvalidConfiguration(
            "the tls provider needs tlsTrustCertsFilePath: who signs the clients' certificates"
        )
    return CertificateProvider()
