"""Certificates from files, and what becomes of them when the files change."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from magnetar.app.tls import ReloadingContext, TlsFiles, check_tls, open_broker_tls, open_web_tls
from magnetar.errors import InvalidConfiguration
from magnetar.runtime.configuration import Configuration
from tests.authority import Authority


class Hands:
    """A clock whose time the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A TLS handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return one, other


def client_of(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.certificate)
    return context


def serial(authority: Authority, server: ssl.SSLContext) -> str:
    certificate = shake(server, client_of(authority))[0].getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def settings(authority: Authority, **more: object) -> Configuration:
    certificate, key = authority.issue("localhost", host="localhost")
    given = {
        "brokerServicePortTls": 0,
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.certificate),
    }
    return Configuration(given | more)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def hands() -> Hands:
    return Hands()


def open_tls(config: Configuration, hands: Hands) -> ReloadingContext:
    context = open_broker_tls(config, hands)
    assert context is not None
    return context


def test_without_a_tls_port_there_is_no_tls(hands: Hands) -> None:
    assert open_broker_tls(Configuration(), hands) is None
    assert open_web_tls(Configuration(), hands) is None


def test_a_new_certificate_serves_new_connections_once_its_time_has_come(
    authority: Authority, hands: Hands
) -> None:
    server = open_tls(settings(authority, tlsCertRefreshCheckDurationSec=60), hands)
    first = serial(authority, server)
    authority.issue("localhost", host="localhost")
    hands.now_s = 59
    assert serial(authority, server) == first
    hands.now_s = 60
    second = serial(authority, server)
    assert second != first
    assert serial(authority, server) == second


def test_a_check_of_zero_looks_at_every_connection(authority: Authority, hands: Hands) -> None:
    server = open_tls(settings(authority, tlsCertRefreshCheckDurationSec=0), hands)
    first = serial(authority, server)
    authority.issue("localhost", host="localhost")
    assert serial(authority, server) != first


def test_a_pair_that_does_not_match_changes_nothing(
    authority: Authority, hands: Hands, tmp_path: Path
) -> None:
    """Files are renewed one after the other: in between they are of two keys."""
    config = settings(authority, tlsCertRefreshCheckDurationSec=0)
    server = open_tls(config, hands)
    first = serial(authority, server)
    certificate, key = authority.issue("localhost", host="localhost", file="next")
    Path(config.tlsCertificateFilePath).write_bytes(certificate.read_bytes())
    assert serial(authority, server) == first
    Path(config.tlsKeyFilePath).write_bytes(key.read_bytes())
    second = serial(authority, server)
    assert second != first
    Path(config.tlsCertificateFilePath).unlink()
    assert serial(authority, server) == second


def test_a_signer_that_is_not_trusted_any_more_is_forgotten(
    authority: Authority, hands: Hands, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    other = Authority(tmp_path / "others", "other")
    config = settings(authority, tlsCertRefreshCheckDurationSec=0)
    server = open_tls(config, hands)
    client = client_of(authority)
    client.load_cert_chain(*authority.issue("alice"))
    assert shake(server, client)[1].getpeercert() is not None
    Path(config.tlsTrustCertsFilePath).write_bytes(other.certificate.read_bytes())
    with pytest.raises(ssl.SSLError):
        shake(server, client)


def test_nothing_older_than_tls_1_2_is_served(authority: Authority, hands: Hands) -> None:
    server = open_tls(settings(authority), hands)
    old = client_of(authority)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        shake(server, old)
    assert shake(server, client_of(authority))[0].version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("more", "version", "cipher"),
    [
        ({"tlsProtocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"tlsProtocols": "TLSv1.3"}, "TLSv1.3", None),
        (
            {
                "tlsProtocols": "TLSv1.2",
                "tlsCiphers": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            },
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            {"tlsProtocols": "TLSv1.2", "tlsCiphers": "ECDHE-ECDSA-CHACHA20-POLY1305"},
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (
            {
                "tlsProtocols": "TLSv1.2",
                "tlsCiphers": "TLS_AES_128_GCM_SHA256,"
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            },
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
    ],
)
def test_versions_and_ciphers_are_chosen(
    authority: Authority, hands: Hands, more: dict[str, str], version: str, cipher: str | None
) -> None:
    found, _ = shake(open_tls(settings(authority, **more), hands), client_of(authority))
    assert found.version() == version
    chosen = found.cipher()
    assert chosen is not None and (cipher is None or chosen[0] == cipher)


@pytest.mark.parametrize("required", [True, False])
def test_a_client_certificate_is_verified_and_asked_for_when_told(
    authority: Authority, hands: Hands, tmp_path: Path, required: bool
) -> None:
    config = settings(
        authority, tlsRequireTrustedClientCertOnConnect=required, tlsProtocols="TLSv1.2"
    )
    server = open_tls(config, hands)
    bare = client_of(authority)
    if required:
        with pytest.raises(ssl.SSLError):
            shake(server, bare)
    else:
        assert shake(server, bare)[1].getpeercert() is None
    (tmp_path / "others").mkdir()
    stranger = client_of(authority)
    stranger.load_cert_chain(*Authority(tmp_path / "others", "other").issue("alice"))
    with pytest.raises(ssl.SSLError):
        shake(server, stranger)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tlsProtocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not served"),
        ({"tlsCiphers": "ROT13"}, "none of ROT13 is known"),
        ({"tlsKeyFilePath": ""}, "needs tlsCertificateFilePath and tlsKeyFilePath"),
        ({"tlsKeyFilePath": "/absent"}, "tlsKeyFilePath: /absent is not a file"),
        ({"tlsCertificateFilePath": "/absent"}, "/absent: No such file"),
        ({"tlsTrustCertsFilePath": "/absent"}, "tlsTrustCertsFilePath: /absent"),
        ({"tlsTrustCertsFilePath": "", "tlsRequireTrustedClientCertOnConnect": True}, "needs"),
        (
            {"tlsAllowInsecureConnection": True, "tlsRequireTrustedClientCertOnConnect": True},
            "contradict",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_reason(
    authority: Authority, hands: Hands, more: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        open_broker_tls(settings(authority, **more), hands)


def test_a_key_of_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    certificate, _ = authority.issue("one")
    _, key = authority.issue("other")
    with pytest.raises(InvalidConfiguration, match="KEY_VALUES_MISMATCH"):
        TlsFiles(certificate, key, None, is_client_required=False).load()


@pytest.mark.parametrize(
    ("given", "plain", "web", "sentence"),
    [
        ({"tlsEnabled": True}, True, True, "tlsEnabled needs"),
        ({}, False, True, "brokerServicePort or brokerServicePortTls"),
        ({}, True, False, "webServicePort or webServicePortTls"),
    ],
)
def test_ports_that_were_asked_for_must_be_there(
    given: dict[str, object], plain: bool, web: bool, sentence: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        check_tls(Configuration(given), has_plain=plain, has_web=web)
