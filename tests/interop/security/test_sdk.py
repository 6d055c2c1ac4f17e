"""Our own client over TLS: whom it trusts, how it proves itself, and scalable topics."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar import ConnectionPolicy, PulsarClient
from magnetar.app.standalone import serving
from magnetar.client.admin import AdminClient
from magnetar.client.authentication import (
    Authentication,
    BasicAuthentication,
    TlsAuthentication,
    TlsPolicy,
    TokenAuthentication,
)
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    AuthenticationError,
    ConfigurationError,
    ConnectError,
)
from tests.authority import Authority
from tests.interop.security.place import PASSWORD, Place, security_settings, token_of

ALICE = TokenAuthentication(token_of("alice"))


def open_client(
    place: Place, authentication: Authentication, tls: TlsPolicy, *, host: str = "localhost"
) -> AsyncPulsarClient:
    url = f"pulsar+ssl://{host}:{place.port_tls}"
    return AsyncPulsarClient(url, authentication=authentication, tls=tls, operation_timeout=5)


async def pass_one(client: AsyncPulsarClient, topic: str) -> None:
    async with client:
        consumer = await client.consumer(topic, "s")
        producer = await client.producer(topic)
        await producer.send(b"through")
        assert (await consumer.receive(timeout=10)).value == b"through"


@pytest.mark.parametrize("kind", ["token", "basic", "certificate", "token and certificate"])
def test_a_message_passes_for_each_kind_of_proof(place: Place, topic: str, kind: str) -> None:
    certificate, key = place.authority.issue("alice")
    proofs: dict[str, tuple[Authentication, TlsPolicy]] = {
        "token": (ALICE, place.tls),
        "basic": (BasicAuthentication("admin", PASSWORD), place.tls),
        "certificate": (TlsAuthentication(certificate, key), place.tls),
        "token and certificate": (ALICE, replace(place.tls, certificate=certificate, key=key)),
    }
    asyncio.run(pass_one(open_client(place, *proofs[kind]), topic))


def test_a_proxy_finds_the_broker_by_the_name_in_the_handshake(place: Place, topic: str) -> None:
    async def body() -> None:
        hellos: list[bytes] = []

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hello = await reader.read(2**16)
            hellos.append(hello)
            behind, broker = await asyncio.open_connection("127.0.0.1", place.port_tls)
            broker.write(hello)
            await asyncio.gather(pipe(reader, broker), pipe(behind, writer))

        async def pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(2**16):
                target.write(data)
            target.close()

        proxy = await asyncio.start_server(forward, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        # Nobody listens at the broker's own address: only the name in it counts.
        client = AsyncPulsarClient(
            "pulsar+ssl://localhost:1",
            authentication=ALICE,
            tls=place.tls,
            connection=ConnectionPolicy(proxy_url=f"pulsar+ssl://127.0.0.1:{port}"),
            operation_timeout=5,
        )
        await pass_one(client, topic)
        proxy.close()
        assert hellos and all(b"localhost" in hello for hello in hellos)

    asyncio.run(body())


def test_a_broker_of_another_name_or_signer_is_not_trusted(
    place: Place, topic: str, tmp_path: Path
) -> None:
    async def body() -> None:
        stranger = TlsPolicy(trust_certs=Authority(tmp_path, "stranger").certificate)
        for tls, host in (
            (stranger, "localhost"),
            (TlsPolicy(), "localhost"),
            (place.tls, "127.0.0.1"),
        ):
            async with open_client(place, ALICE, tls, host=host) as client:
                with pytest.raises(ConnectError, match=r"(?i)certificate|hostname"):
                    await client.connect()
        for tls, host in (
            (TlsPolicy(allow_insecure=True), "127.0.0.1"),
            (replace(place.tls, verify_hostname=False), "127.0.0.1"),
        ):
            async with open_client(place, ALICE, tls, host=host) as client:
                await client.connect()

    asyncio.run(body())


def test_a_refused_client_says_why_without_its_secret(place: Place) -> None:
    async def fail() -> str:
        raise LookupError("hunter2")

    async def body() -> None:
        token = token_of("alice", lasts_s=-1)
        for proof in (
            TokenAuthentication(token),
            TokenAuthentication(fail),
            BasicAuthentication("admin", "hunter2"),
        ):
            async with open_client(place, proof, place.tls) as client:
                with pytest.raises(AuthenticationError) as refusal:
                    await client.connect()
            assert "hunter2" not in str(refusal.value) and token not in str(refusal.value)
            assert "hunter2" not in repr(proof) and token not in repr(proof)

    asyncio.run(body())


def test_files_that_are_not_there_are_named(place: Place) -> None:
    async def body() -> None:
        async with open_client(place, ALICE, TlsPolicy(trust_certs="/absent")) as client:
            with pytest.raises(ConfigurationError, match="/absent"):
                await client.connect()

    asyncio.run(body())
    with pytest.raises(ConfigurationError, match="both"):
        TlsPolicy(certificate="a.pem")
    with pytest.raises(ConfigurationError, match="colon"):
        BasicAuthentication("a:b", "c")


def test_a_broker_may_serve_tls_only(tmp_path: Path) -> None:
    """In this loop, which is not the one a broker's process has; and named by a listener."""
    authority = Authority(tmp_path)
    settings = security_settings(authority) | {"brokerServicePort": "", "webServicePort": ""}
    overrides = [f"{key}={value}" for key, value in settings.items()]

    async def body() -> None:
        async with serving(data=tmp_path / "data", overrides=overrides) as server:
            owner = server.service.owner
            assert (owner.service_url, owner.web_url) == ("", "")
            tls = TlsPolicy(trust_certs=authority.certificate)
            async with AsyncPulsarClient(
                owner.service_url_tls, authentication=ALICE, tls=tls
            ) as client:
                admin = AdminClient(owner.web_url_tls, token=token_of("root"), tls=tls)
                name = "topic://public/default/only"
                await asyncio.to_thread(admin.scalable_topics.create, name, segments=2)
                admin.close()
                consumer = await client.stream_consumer(name, subscription="s")
                producer = await client.producer(name)
                await producer.send(b"x" * 3_000_000)
                assert len((await consumer.receive(timeout=10)).value) == 3_000_000

    asyncio.run(body())


def test_a_scalable_topic_is_used_over_tls_with_a_token(place: Place, topic: str) -> None:
    name = topic.replace("persistent", "topic")
    with place.admin() as admin:
        admin.scalable_topics.create(name, segments=2)
    with PulsarClient(place.url_tls, authentication=ALICE, tls=place.tls) as client:
        consumer = client.stream_consumer(name, subscription="s", initial_position="earliest")
        with client.producer(name) as producer:
            for number in range(50):
                producer.send(b"%d" % number, key=str(number))
        received = {consumer.receive(timeout=10).value for _ in range(50)}
        assert received == {b"%d" % number for number in range(50)}
