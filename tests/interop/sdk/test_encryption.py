"""What the official client encrypts, ours reads, and the other way round."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pulsar
import pytest

from magnetar import AsyncPulsarClient, ConsumerEncryption, PemKeys, ProducerEncryption
from magnetar.testing.broker import MagnetarBroker
from tests.interop.key_file import write_keys


@pytest.fixture(scope="module")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_keys(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("is_batched", [False, True])
@pytest.mark.parametrize("compression", [pulsar.CompressionType.NONE, pulsar.CompressionType.ZLib])
def test_ours_reads_what_the_official_client_encrypted(
    client: pulsar.Client,
    magnetar_broker: MagnetarBroker,
    topic: str,
    key_files: tuple[Path, Path],
    is_batched: bool,
    compression: pulsar.CompressionType,
) -> None:
    async def body() -> None:
        keys = PemKeys(private={"orders": key_files[1]})
        async with AsyncPulsarClient(magnetar_broker.service_url) as ours:
            consumer = await ours.consumer(topic, "s", encryption=ConsumerEncryption(keys))
            producer = client.create_producer(
                topic,
                encryption_key="orders",
                crypto_key_reader=pulsar.CryptoKeyReader(*map(str, key_files)),
                batching_enabled=is_batched,
                compression_type=compression,
            )
            for number in range(5):
                producer.send_async(b"secret %d" % number, None)
            producer.flush()
            for number in range(5):
                message = await consumer.receive(20)
                assert message is not None and message.data == b"secret %d" % number

    asyncio.run(body())


@pytest.mark.parametrize("is_batched", [False, True])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_official_client_reads_what_ours_encrypted(
    client: pulsar.Client,
    magnetar_broker: MagnetarBroker,
    topic: str,
    key_files: tuple[Path, Path],
    is_batched: bool,
    compression: str,
) -> None:
    consumer = client.subscribe(
        topic, "s", crypto_key_reader=pulsar.CryptoKeyReader(*map(str, key_files))
    )

    async def body() -> None:
        sealing = ProducerEncryption(PemKeys(public={"orders": key_files[0]}), ["orders"])
        async with AsyncPulsarClient(magnetar_broker.service_url) as ours:
            producer = await ours.producer(
                topic, encryption=sealing, batching=is_batched, compression=compression
            )
            for number in range(5):
                await producer.submit(b"secret %d" % number)
            await producer.flush()

    asyncio.run(body())
    for number in range(5):
        assert consumer.receive(timeout_millis=20_000).data() == b"secret %d" % number
