"""The algorithms of end-to-end encryption, as every Pulsar client has them.

Payloads: AES-256 in GCM, a random 12-byte nonce per entry, the tag behind the ciphertext. Data
keys: RSA with OAEP (SHA-1), or ECIES for elliptic curves. SHA-1 is the protocol's choice, and
sound inside these constructions.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509 import load_pem_x509_certificate

from magnetar.client.encryption import (
    ConsumerEncryption,
    EncryptionKey,
    ProducerEncryption,
    ProducerFailure,
)
from magnetar.client.error import CryptoError
from magnetar.client.schema.book import Unprepared
from magnetar.runtime.log import Logger
from magnetar.wire.command import EncryptionKeys, KeyValue, MessageMetadata

_log = Logger(__name__)

_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12
_MAC_KEY_BYTES: Final = 16
_MAC_BYTES: Final = 20
_KNOWN_KEYS_MAX: Final = 10_000
# Pulsar's clients wrap keys so; OAEP does not lean on what is broken in SHA-1.
_OAEP: Final = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # nosec B303


class PayloadSealer:
    """Holds the present data key, wrapped for every reader."""

    def __init__(self, encryption: ProducerEncryption) -> None:
        self._encryption = encryption
        self._cipher: AESGCM | None = None
        self._wrapped: list[EncryptionKeys] = []

    async def renew(self) -> None:
        """Make a new data key; with SEND_UNENCRYPTED a failure leaves the producer without."""
        data_key = AESGCM.generate_key(_KEY_BITS)
        wrapped = []
        try:
            for name in self._encryption.names:
                public = await _ask(partial(self._encryption.keys.public_key, name))
                entry = EncryptionKeys(key=name, value=wrap_key(public.pem, data_key))
                for key, value in public.metadata.items():
                    entry.metadata.append(KeyValue(key=key, value=value))
                wrapped.append(entry)
        except CryptoError as error:
            if self._encryption.on_failure == ProducerFailure.FAIL:
                raise
            _log.warning("messages are sent unencrypted", error=error)
            self._cipher, self._wrapped = None, []
            return
        self._cipher, self._wrapped = AESGCM(data_key), wrapped

    def seal(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        if self._cipher is None:
            return payload
        nonce = os.urandom(_NONCE_BYTES)
        metadata.encryption_keys.extend(self._wrapped)
        metadata.encryption_param = nonce
        return self._cipher.encrypt(nonce, payload, None)


class PayloadOpener:
    """Remembers the data keys it unwrapped, and those it could not."""

    def __init__(self, encryption: ConsumerEncryption) -> None:
        self._encryption = encryption
        self._known: OrderedDict[bytes, AESGCM | CryptoError] = OrderedDict()

    def require(self, metadata: MessageMetadata) -> None:
        unknown = self._find_unknown(metadata)
        if unknown and self._encryption.keys is not None:

            async def prepare() -> None:
                for keys in unknown:
                    await self._unwrap(keys)

            raise Unprepared(prepare)

    def open(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        failure = CryptoError("The message is encrypted, and the consumer has no keys")
        for keys in metadata.encryption_keys:
            known = self._known.get(keys.value)
            if isinstance(known, CryptoError):
                failure = known
            elif known is not None:
                try:
                    return known.decrypt(metadata.encryption_param, payload, None)
                except (InvalidTag, ValueError):
                    failure = CryptoError("The payload was changed, or its key is another")
        raise failure

    def learn_all(self, metadata: MessageMetadata, load: Callable[[str], EncryptionKey]) -> None:
        """Unwrap what is not known yet of a message's data keys, at once."""
        for keys in self._find_unknown(metadata):
            try:
                self._learn(keys, load(keys.key))
            except CryptoError as error:
                self._learn(keys, error)

    def _find_unknown(self, metadata: MessageMetadata) -> list[EncryptionKeys]:
        return [keys for keys in metadata.encryption_keys if keys.value not in self._known]

    async def _unwrap(self, keys: EncryptionKeys) -> None:
        provider = self._encryption.keys
        assert provider is not None, "asked for only where there is one"
        metadata = {pair.key: pair.value for pair in keys.metadata}
        try:
            self._learn(keys, await _ask(partial(provider.private_key, keys.key, metadata)))
        except CryptoError as error:
            self._learn(keys, error)

    def _learn(self, keys: EncryptionKeys, private: EncryptionKey | CryptoError) -> None:
        """Unwrap a data key, or remember why there is no private key for it."""
        found: AESGCM | CryptoError
        try:
            if isinstance(private, CryptoError):
                raise private
            found = AESGCM(unwrap_key(private.pem, keys.value))
        except (CryptoError, ValueError) as error:
            found = CryptoError(f"The data key for {keys.key!r} cannot be unwrapped: {error}")
        self._known[keys.value] = found
        if len(self._known) > _KNOWN_KEYS_MAX:
            self._known.popitem(last=False)


async def _ask(provide: Callable[[], EncryptionKey | Awaitable[EncryptionKey]]) -> EncryptionKey:
    try:
        key = provide()
        return await key if inspect.isawaitable(key) else key
    except CryptoError:
        raise
    # An application's code may raise anything; what waits for the key must fail with it.
    except Exception as error:
        raise CryptoError(f"The key provider failed: {error!r}") from error


def wrap_key(public_pem: bytes, data_key: bytes) -> bytes:
    """Encrypt a data key for the holder of the private key."""
    public: object
    try:
        if b"BEGIN CERTIFICATE" in public_pem:
            public = load_pem_x509_certificate(public_pem).public_key()
        else:
            public = serialization.load_pem_public_key(_without_parameters(public_pem))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CryptoError(f"Not a public key in PEM: {error}") from None
    if isinstance(public, rsa.RSAPublicKey):
        return public.encrypt(data_key, _OAEP)
    if isinstance(public, ec.EllipticCurvePublicKey):
        return _wrap_with_curve(public, data_key)
    raise CryptoError("A public key is RSA or of an elliptic curve")


def unwrap_key(private_pem: bytes, wrapped: bytes) -> bytes:
    try:
        private = serialization.load_pem_private_key(_without_parameters(private_pem), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CryptoError(f"Not a private key in PEM: {error}") from None
    if isinstance(private, rsa.RSAPrivateKey):
        try:
            return private.decrypt(wrapped, _OAEP)
        except ValueError:
            raise CryptoError("it was wrapped for another key") from None
    if isinstance(private, ec.EllipticCurvePrivateKey):
        return _unwrap_with_curve(private, wrapped)
    raise CryptoError("A private key is RSA or of an elliptic curve")


def _without_parameters(pem: bytes) -> bytes:
    """Skip the curve's parameters, which openssl writes in front of an EC key."""
    end = b"-----END EC PARAMETERS-----"
    return pem.partition(end)[2].lstrip() if end in pem else pem


def _wrap_with_curve(public: ec.EllipticCurvePublicKey, data_key: bytes) -> bytes:
    ephemeral = ec.generate_private_key(public.curve)
    point = ephemeral.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    shared = ephemeral.exchange(ec.ECDH(), public)
    mac_key, mask = _derive(point + shared, len(data_key))
    covered = bytes(a ^ b for a, b in zip(data_key, mask, strict=True))
    return point + covered + _mac(mac_key, covered)


def _unwrap_with_curve(private: ec.EllipticCurvePrivateKey, wrapped: bytes) -> bytes:
    size = 1 + 2 * ((private.curve.key_size + 7) // 8)
    point, covered = wrapped[:size], wrapped[size:-_MAC_BYTES]
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(private.curve, point)
    except ValueError:
        raise CryptoError("it was wrapped for another curve") from None
    mac_key, mask = _derive(point + private.exchange(ec.ECDH(), public), len(covered))
    if not hmac.compare_digest(_mac(mac_key, covered), wrapped[-_MAC_BYTES:]):
        raise CryptoError("it was wrapped for another key")
    return bytes(a ^ b for a, b in zip(covered, mask, strict=True))


def _derive(secret: bytes, size: int) -> tuple[bytes, bytes]:
    """KDF2 with SHA-1: first the key of the MAC, then the mask of the data."""
    stream = b""
    counter = 1
    while len(stream) < _MAC_KEY_BYTES + size:
        stream += hashlib.sha1(secret + counter.to_bytes(4, "big"), usedforsecurity=False).digest()
        counter += 1
    return stream[:_MAC_KEY_BYTES], stream[_MAC_KEY_BYTES : _MAC_KEY_BYTES + size]


def _mac(key: bytes, covered: bytes) -> bytes:
    # Behind the data stands the length in bits of an encoding vector that is not used.
    return hmac.digest(key, covered + bytes(8), "sha1")
