"""Loads encryption on first use: it needs a library that is an extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.client.encryption import (
    ConsumerEncryption,
    ConsumerFailure,
    EncryptionKey,
    Opener,
    ProducerEncryption,
    Sealer,
)
from magnetar.client.error import CryptoError
from magnetar.wire.command import MessageMetadata

if TYPE_CHECKING:
    from magnetar.client.cipher import PayloadOpener

_MISSING = "Encryption needs another package: pip install 'magnetar[encryption]'"


def make_sealer(encryption: ProducerEncryption) -> Sealer:
    try:
        from magnetar.client.cipher import PayloadSealer
    except ImportError:
        raise CryptoError(_MISSING) from None
    return PayloadSealer(encryption)


def make_opener(encryption: ConsumerEncryption) -> Opener:
    return _make_opener(encryption)


def _make_opener(encryption: ConsumerEncryption) -> PayloadOpener:
    try:
        from magnetar.client.cipher import PayloadOpener
    except ImportError:
        raise CryptoError(_MISSING) from None
    return PayloadOpener(encryption)


def make_decrypt(
    load: Callable[[str], EncryptionKey], *, keeps: bool
) -> Callable[[MessageMetadata, bytes], bytes | None]:
    """A function that decrypts payloads with the private keys that `load` gives by name. It raises
    CryptoError for one that it cannot decrypt; with `keeps` it returns None.
    """
    opener: list[PayloadOpener] = []

    def decrypt(metadata: MessageMetadata, payload: bytes) -> bytes | None:
        try:
            if not opener:
                opener.append(_make_opener(ConsumerEncryption(on_failure=ConsumerFailure.CONSUME)))
            opener[0].learn_all(metadata, load)
            return opener[0].open(metadata, payload)
        except CryptoError:
            if keeps:
                return None
            raise

    return decrypt
