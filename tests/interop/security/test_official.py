"""The official client proves who it is in each way, with and without TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pulsar
import pytest

from tests.authority import Authority
from tests.interop.security.place import PASSWORD, Place, token_of

WAIT_MS = 10_000


def credentials(place: Place, kind: str) -> pulsar.Authentication:
    match kind:
        case "token":
            return pulsar.AuthenticationToken(token_of("alice", lasts_s=600))
        case "supplier":
            return pulsar.AuthenticationToken(lambda: token_of("alice"))
        case "basic":
            return pulsar.AuthenticationBasic("admin", PASSWORD)
        case _:
            certificate, key = place.authority.issue("alice")
            return pulsar.AuthenticationTLS(str(certificate), str(key))


@pytest.mark.parametrize(
    ("kind", "tls"),
    [
        ("token", True),
        ("token", False),
        ("supplier", True),
        ("basic", True),
        ("basic", False),
        ("tls", True),
    ],
)
def test_messages_pass_for_whoever_proves_a_role(
    place: Place, topic: str, kind: str, tls: bool
) -> None:
    client = place.official(credentials(place, kind), tls=tls)
    try:
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(topic)
        sent = [b"%d" % number for number in range(200)]
        for each in sent:
            producer.send_async(each, None)
        producer.flush()
        received = [consumer.receive(WAIT_MS) for _ in sent]
        assert [each.data() for each in received] == sent
        for each in received:
            consumer.acknowledge(each)
    finally:
        client.close()


@pytest.mark.parametrize("kind", ["wrong", "expired", "unsigned", "password", "method", "nothing"])
def test_nobody_else_gets_in(place: Place, topic: str, kind: str) -> None:
    authentications = {
        "wrong": pulsar.AuthenticationToken("rubbish"),
        "expired": pulsar.AuthenticationToken(token_of("alice", lasts_s=-1)),
        "unsigned": pulsar.AuthenticationToken(token_of("alice").rpartition(".")[0] + "."),
        "password": pulsar.AuthenticationBasic("admin", "wrong"),
        "method": pulsar.AuthenticationBasic("admin", PASSWORD, method="kerberos"),
    }
    if kind == "nothing":
        client = pulsar.Client(
            place.broker.service_url,
            operation_timeout_seconds=1,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
    else:
        client = place.official(authentications[kind], patience_s=1)
    try:
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic)
    finally:
        client.close()


def test_a_certificate_of_a_stranger_is_refused(place: Place, topic: str, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path, "stranger").issue("alice")
    client = place.official(pulsar.AuthenticationTLS(str(certificate), str(key)), patience_s=1)
    try:
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(topic)
    finally:
        client.close()


def test_the_lookup_over_https_takes_the_same_credentials(place: Place, topic: str) -> None:
    """The official client asks the admin port for the broker when its URL says so."""
    client = pulsar.Client(
        place.admin_url_tls,
        authentication=pulsar.AuthenticationToken(token_of("alice")),
        tls_trust_certs_file_path=str(place.authority.certificate),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        client.create_producer(topic).send(b"over https")
    finally:
        client.close()


def test_no_secret_of_anybody_stands_in_the_log_or_the_configuration(place: Place) -> None:
    token = token_of("alice", lasts_s=-1)
    client = place.official(pulsar.AuthenticationToken(token), patience_s=1)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("t")
    client.close()
    with place.admin() as admin:
        shown = json.dumps(admin.brokers.runtime_configuration())
    log = place.broker.read_log()
    assert "the token has expired" in log
    for secret in (token, PASSWORD, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "$apr1$"):
        assert secret not in log and secret not in shown
