"""End-to-end encryption: the broker stores what it cannot read."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from magnetar import ConsumerEncryption, CryptoError, PemKeys, ProducerEncryption
from tests.contract.sdk_place import SILENCE_S, Place, take
from tests.contract.sdk_regular import KINDS_OF_TOPIC, open_producer, open_queue, pick_topic

BOTH = pytest.mark.parametrize("kind", KINDS_OF_TOPIC)


@cache
def keys(algorithm: str, owner: str = "us") -> PemKeys:
    """The same for the same owner."""
    assert owner
    private: Any = (
        rsa.generate_private_key(65537, 2048)
        if algorithm == "rsa"
        else ec.generate_private_key(ec.SECP256R1())
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return PemKeys(public={"orders": public}, private={"orders": secret})


@BOTH
@pytest.mark.parametrize("algorithm", ["rsa", "curve"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_whoever_has_the_key_reads_what_was_encrypted(
    place: Place, kind: str, algorithm: str, compression: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        sealing = ProducerEncryption(keys(algorithm), ["orders"])
        opening = ConsumerEncryption(keys(algorithm))
        async with place.client() as client:
            consumer = await open_queue(client, topic, encryption=opening)
            producer = await open_producer(
                client, topic, encryption=sealing, compression=compression
            )
            sent = {b"%d" % number * 10 for number in range(20)}
            for data in sorted(sent):
                await (await producer.submit(data))
            messages = await take(consumer, len(sent))
            assert {message.data for message in messages} == sent
            assert not any(message.is_encrypted for message in messages)

    asyncio.run(body())


@BOTH
def test_a_large_message_is_encrypted_in_pieces(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        data = bytes(range(256)) * 1000
        async with place.client() as client:
            consumer = await open_queue(client, topic, encryption=ConsumerEncryption(keys("rsa")))
            producer = await open_producer(
                client,
                topic,
                encryption=ProducerEncryption(keys("rsa"), ["orders"]),
                chunking="50KB",
            )
            await producer.send(data)
            [message] = await take(consumer, 1)
            assert message.data == data
            await consumer.acknowledge(message)

    asyncio.run(body())


@BOTH
@pytest.mark.parametrize("on_failure", ["consume", "discard", "fail"])
@pytest.mark.parametrize("held", ["no key", "a key of somebody else"])
def test_without_the_key_a_consumer_does_what_it_was_told(
    place: Place, kind: str, on_failure: str, held: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        provider = PemKeys() if held == "no key" else keys("rsa", "somebody else")
        opening = ConsumerEncryption(provider, on_failure=on_failure)
        async with place.client() as client:
            consumer = await open_queue(client, topic, encryption=opening, ack_group_time=0)
            sealed = await open_producer(
                client, topic, encryption=ProducerEncryption(keys("rsa"), ["orders"])
            )
            plain = await open_producer(client, topic)
            await sealed.send(b"secret")
            await plain.send(b"plain")
            if on_failure == "consume":
                [first] = await take(consumer, 1)
                assert first.is_encrypted and b"secret" not in first.data
                await consumer.acknowledge(first)
            [message] = await take(consumer, 1)
            assert message.data == b"plain"
            await consumer.acknowledge(message)
            await consumer.close()
            holder = await open_queue(client, topic, encryption=ConsumerEncryption(keys("rsa")))
            if on_failure == "fail":  # it was not acknowledged: who has the key gets it
                [message] = await take(holder, 1)
                assert message.data == b"secret"
            else:
                assert await holder.receive(SILENCE_S) is None

    asyncio.run(body())


@BOTH
def test_a_producer_without_its_key_does_not_send(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client(operation_timeout=5) as client:
            consumer = await open_queue(client, topic)

            async def produce() -> None:
                sealing = ProducerEncryption(PemKeys(), ["orders"])
                producer = await open_producer(client, topic, encryption=sealing)
                await producer.send(b"secret")

            with pytest.raises(CryptoError, match="no public key 'orders'"):
                await produce()
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())
