"""Loads what encrypts when somebody asks for it: it needs a library that is an extra."""

from __future__ import annotations

from magnetar.client.encryption import ConsumerEncryption, Opener, ProducerEncryption, Sealer
from magnetar.client.error import CryptoError

_MISSING = "Encryption needs another package: pip install 'magnetar[encryption]'"


def make_sealer(encryption: ProducerEncryption) -> Sealer:
    try:
        from magnetar.client.cipher import PayloadSealer
    except ImportError:
        raise CryptoError(_MISSING) from None
    return PayloadSealer(encryption)


def make_opener(encryption: ConsumerEncryption) -> Opener:
    try:
        from magnetar.client.cipher import PayloadOpener
    except ImportError:
        raise CryptoError(_MISSING) from None
    return PayloadOpener(encryption)
