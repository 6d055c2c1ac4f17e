"""Certificates are renewed under traffic."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from magnetar.client.authentication import TokenAuthentication
from magnetar.client.client import AsyncPulsarClient
from tests.authority import Authority
from tests.interop.security.place import Place, make_place, token_of

MESSAGES = 1000


@pytest.fixture
def rotating(tmp_path: Path) -> Iterator[Place]:
    made = make_place(tmp_path)
    with made.broker:
        yield made


def serial(port: int, authority: Authority) -> str:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        certificate = secure.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_new_certificate_and_signer_drop_no_message(
    rotating: Place, topic: str, tmp_path: Path
) -> None:
    place = rotating
    (tmp_path / "next").mkdir()
    following = Authority(tmp_path / "next", "next")
    before = {port: serial(port, place.authority) for port in (place.port_tls, place.web_port_tls)}

    def rotate() -> None:
        """As a person would: one file after the other, in place."""
        certificate, key = following.issue("localhost", host="localhost", file="broker")
        for name, source in (("broker.cert.pem", certificate), ("broker.key.pem", key)):
            (tmp_path / name).write_bytes(source.read_bytes())

    async def body() -> None:
        async with AsyncPulsarClient(
            place.url_tls, authentication=TokenAuthentication(token_of("alice")), tls=place.tls
        ) as client:
            consumer = await client.consumer(topic, "s")
            producer = await client.producer(topic)
            received: list[bytes] = []

            async def receive() -> None:
                while len(received) < MESSAGES:
                    message = await consumer.receive(timeout=20)
                    received.append(message.value)
                    await consumer.acknowledge(message)

            async def send() -> None:
                for number in range(MESSAGES):
                    if number == MESSAGES // 2:
                        rotate()
                        for port, old in before.items():
                            assert await asyncio.to_thread(serial, port, following) != old
                    await producer.send(b"%d" % number)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(receive())
                tasks.create_task(send())
            assert received == [b"%d" % number for number in range(MESSAGES)]

    asyncio.run(body())
    assert place.broker.read_log().count("certificates reloaded") >= 2
    official = pulsar.Client(
        place.url_tls,
        authentication=pulsar.AuthenticationToken(token_of("alice")),
        tls_trust_certs_file_path=str(following.certificate),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    official.create_producer(topic).send(b"by the new signer")
    official.close()
