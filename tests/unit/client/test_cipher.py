"""Payloads that only the holders of a key can read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from magnetar.client.cipher import PayloadOpener, PayloadSealer, unwrap_key, wrap_key
from magnetar.client.encryption import (
    ConsumerEncryption,
    EncryptionKey,
    PemKeys,
    ProducerEncryption,
)
from magnetar.client.error import ConfigurationError, CryptoError
from magnetar.client.schema.book import Unprepared
from magnetar.wire.command import MessageMetadata

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def pem_pair(private: PrivateKey) -> tuple[bytes, bytes]:
    return (
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


RSA = pem_pair(rsa.generate_private_key(65537, 2048))
OTHER_RSA = pem_pair(rsa.generate_private_key(65537, 2048))
CURVE = pem_pair(ec.generate_private_key(ec.SECP256R1()))
# A data key that another client wrapped with ECIES for the private key below.
FOREIGN_PRIVATE = b"""-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIHkvchXD4fAvys1zaPJyc5nmUZ9nHi/CdOkX6y8gtuv2oAoGCCqGSM49
AwEHoUQDQgAEonFyhvcarEax1m7egvFBoT5+/OsB3hkE1NBE8yvPCHN0Rgvb5U0J
E7VPPr7DgrqHsaQBt/IeWocAEMj+/f8yFg==
-----END EC PRIVATE KEY-----
"""
FOREIGN_WRAPPED = bytes.fromhex(
    "049c637ba137a265b11a4b42b6c64cdb595cece6f2ec6ab3ddbed8fb7bcacca3454ae8c3d1b2d061"
    "b108286a4ef7189877171bf63e734e6de4069f833493ba6a5474650225f737d84f151d1934b6800a"
    "960732846fc8a2ad7c375f210c270742717136806457bbcbb67abcb848631fa8bffb477c7f"
)


def sealed(sealer: PayloadSealer, payload: bytes) -> tuple[MessageMetadata, bytes]:
    asyncio.run(sealer.renew())
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return metadata, sealer.seal(metadata, payload)


def prepare(opener: PayloadOpener, metadata: MessageMetadata) -> None:
    with pytest.raises(Unprepared) as caught:
        opener.require(metadata)

    async def body() -> None:
        await caught.value.prepare()

    asyncio.run(body())
    opener.require(metadata)


@pytest.mark.parametrize("pair", [RSA, CURVE], ids=["rsa", "curve"])
def test_a_wrapped_key_is_unwrapped_by_its_private_key_alone(pair: tuple[bytes, bytes]) -> None:
    private, public = pair
    wrapped = wrap_key(public, b"k" * 32)
    assert unwrap_key(private, wrapped) == b"k" * 32
    for other in (OTHER_RSA[0], pem_pair(ec.generate_private_key(ec.SECP256R1()))[0]):
        with pytest.raises(CryptoError):
            unwrap_key(other, wrapped)


def test_a_key_that_another_client_wrapped_is_unwrapped() -> None:
    assert unwrap_key(FOREIGN_PRIVATE, FOREIGN_WRAPPED) == b"0123456789abcdef0123456789abcdef"


def test_a_changed_wrapped_key_is_refused() -> None:
    changed = bytearray(FOREIGN_WRAPPED)
    changed[-1] ^= 1
    with pytest.raises(CryptoError):
        unwrap_key(FOREIGN_PRIVATE, bytes(changed))


@pytest.mark.parametrize(
    "pem", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"]
)
def test_what_is_no_key_is_refused(pem: bytes) -> None:
    with pytest.raises(CryptoError):
        wrap_key(pem, b"k" * 32)
    with pytest.raises(CryptoError):
        unwrap_key(pem, b"k" * 32)


def test_a_key_of_another_kind_is_refused() -> None:
    private, public = pem_pair(ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(CryptoError, match="RSA or of an elliptic curve"):
        wrap_key(public, b"k" * 32)
    with pytest.raises(CryptoError, match="RSA or of an elliptic curve"):
        unwrap_key(private, b"k" * 32)


def test_every_named_reader_can_open_what_was_sealed(tmp_path: Path) -> None:
    (tmp_path / "public.pem").write_bytes(CURVE[1])
    keys = PemKeys(public={"a": RSA[1], "b": tmp_path / "public.pem"})
    metadata, payload = sealed(PayloadSealer(ProducerEncryption(keys, ["a", "b"])), b"secret")
    assert b"secret" not in payload
    for private in ({"a": RSA[0]}, {"b": CURVE[0]}):
        opener = PayloadOpener(ConsumerEncryption(PemKeys(private=private)))
        prepare(opener, metadata)
        assert opener.open(metadata, payload) == b"secret"


def test_two_payloads_never_share_a_nonce() -> None:
    sealer = PayloadSealer(ProducerEncryption(PemKeys(public={"a": RSA[1]}), ["a"]))
    first, _ = sealed(sealer, b"x")
    second = MessageMetadata()
    sealer.seal(second, b"x")
    assert first.encryption_param != second.encryption_param


def test_a_changed_payload_is_refused() -> None:
    keys = PemKeys(public={"a": RSA[1]}, private={"a": RSA[0]})
    metadata, payload = sealed(PayloadSealer(ProducerEncryption(keys, ["a"])), b"secret")
    opener = PayloadOpener(ConsumerEncryption(keys))
    prepare(opener, metadata)
    with pytest.raises(CryptoError, match="changed"):
        opener.open(metadata, payload[:-1] + bytes([payload[-1] ^ 1]))


def test_a_missing_private_key_is_named() -> None:
    keys = PemKeys(public={"a": RSA[1]})
    metadata, payload = sealed(PayloadSealer(ProducerEncryption(keys, ["a"])), b"secret")
    opener = PayloadOpener(ConsumerEncryption(keys))
    prepare(opener, metadata)
    with pytest.raises(CryptoError, match="'a'"):
        opener.open(metadata, payload)


def test_a_producer_without_its_key_fails_or_sends_in_the_clear_as_it_was_told() -> None:
    with pytest.raises(CryptoError, match="no public key 'a'"):
        sealed(PayloadSealer(ProducerEncryption(PemKeys(), ["a"])), b"x")
    told = ProducerEncryption(PemKeys(), ["a"], on_failure="send_unencrypted")
    metadata, payload = sealed(PayloadSealer(told), b"x")
    assert payload == b"x" and not metadata.encryption_keys


def test_key_providers_may_be_plain_functions_and_tell_readers_something() -> None:
    asked: list[tuple[str, object]] = []

    class Vault:
        def public_key(self, name: str) -> EncryptionKey:
            return EncryptionKey(RSA[1], {"version": "3"})

        def private_key(self, name: str, metadata: object) -> EncryptionKey:
            asked.append((name, metadata))
            return EncryptionKey(RSA[0])

    metadata, payload = sealed(PayloadSealer(ProducerEncryption(Vault(), ["a"])), b"x")
    opener = PayloadOpener(ConsumerEncryption(Vault()))
    prepare(opener, metadata)
    assert opener.open(metadata, payload) == b"x"
    assert asked == [("a", {"version": "3"})]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="list of key names"):
        ProducerEncryption(PemKeys(), "orders")
    with pytest.raises(ConfigurationError, match="fail, discard, consume"):
        ConsumerEncryption(PemKeys(), on_failure="ignore")
    with pytest.raises(ConfigurationError, match="keys is needed"):
        ConsumerEncryption()


def test_a_key_provider_that_fails_locks_the_message_and_says_why() -> None:
    class Broken:
        def public_key(self, name: str) -> EncryptionKey:
            raise KeyError(name)

        async def private_key(self, name: str, metadata: object) -> EncryptionKey:
            raise ConnectionError("vault is down")

    with pytest.raises(CryptoError, match="provider failed: KeyError"):
        sealed(PayloadSealer(ProducerEncryption(Broken(), ["a"])), b"x")
    keys = PemKeys(public={"a": RSA[1]})
    metadata, payload = sealed(PayloadSealer(ProducerEncryption(keys, ["a"])), b"x")
    opener = PayloadOpener(ConsumerEncryption(Broken()))
    prepare(opener, metadata)
    with pytest.raises(CryptoError, match="vault is down"):
        opener.open(metadata, payload)
