"""A broker that asks who is there and speaks TLS, and what its clients need."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulsar

from magnetar.cli.token import create_token
from magnetar.client.admin import AdminClient
from magnetar.client.authentication import TlsPolicy, TokenAuthentication
from magnetar.runtime.clock import SystemClock
from magnetar.testing.broker import MagnetarBroker, Setting, find_ports
from magnetar.wire.jwt import SecretKey
from tests.authority import Authority

SECRET = SecretKey(bytes(range(32)))
PASSWORD = "123456"
HTPASSWD = b"admin:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\n"


def token_of(role: str, *, lasts_s: int | None = None) -> str:
    now_s = SystemClock().now_ms() // 1000
    return create_token(role, SECRET, expires_s=None if lasts_s is None else now_s + lasts_s)


def data_url(data: bytes) -> str:
    return f"data:;base64,{base64.b64encode(data).decode()}"


def security_settings(
    authority: Authority, *, port: int = 0, web_port: int = 0
) -> dict[str, Setting]:
    certificate, key = authority.issue("localhost", host="localhost", file="broker")
    return {
        "brokerServicePortTls": port,
        "webServicePortTls": web_port,
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.certificate),
        "tlsCertRefreshCheckDurationSec": 0,
        "authenticationEnabled": True,
        "authenticationProviders": "tls,token,basic",
        "authenticationRefreshCheckSeconds": 1,
        "tokenSecretKey": data_url(SECRET.key),
        "basicAuthConf": data_url(HTPASSWD),
        "advertisedAddress": "localhost",
    }


@dataclass(frozen=True)
class Place:
    broker: MagnetarBroker
    authority: Authority
    port_tls: int
    web_port_tls: int

    @property
    def url_tls(self) -> str:
        return f"pulsar+ssl://localhost:{self.port_tls}"

    @property
    def admin_url_tls(self) -> str:
        return f"https://localhost:{self.web_port_tls}"

    @property
    def tls(self) -> TlsPolicy:
        return TlsPolicy(trust_certs=self.authority.certificate)

    def admin(self) -> AdminClient:
        return AdminClient(
            self.admin_url_tls, authentication=TokenAuthentication(token_of("root")), tls=self.tls
        )

    def official(
        self, authentication: pulsar.Authentication, *, tls: bool = True, patience_s: int = 10
    ) -> pulsar.Client:
        return pulsar.Client(
            self.url_tls if tls else self.broker.service_url,
            authentication=authentication,
            tls_trust_certs_file_path=str(self.authority.certificate),
            tls_validate_hostname=True,
            operation_timeout_seconds=patience_s,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )


def make_place(home: Path, *, arguments: Sequence[str] = (), **settings: Setting) -> Place:
    authority = Authority(home)
    port, web_port = find_ports(2)
    given = security_settings(authority, port=port, web_port=web_port)
    broker = MagnetarBroker(set=given | settings, arguments=arguments)
    return Place(broker, authority, port, web_port)
