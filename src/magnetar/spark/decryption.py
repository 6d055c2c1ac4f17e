"""Encrypted messages: which private keys a query has, and what becomes of what they do not open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from magnetar.client.cipher_loader import make_decrypt
from magnetar.client.column import Decrypt
from magnetar.client.encryption import EncryptionKey
from magnetar.client.error import CryptoError

ANY: Final = "*"
"""Stands for keys of all names."""


class OnEncrypted(StrEnum):
    """What becomes of an entry that cannot be decrypted."""

    FAIL = "fail"
    RAW = "raw"
    """One row with the ciphertext; its column `encryption` says so."""


@dataclass(frozen=True, slots=True)
class Decryption:
    """`keys` are the PEM files of private keys by name, as each task finds them."""

    keys: Mapping[str, str] = field(default_factory=dict)
    on_failure: OnEncrypted = OnEncrypted.FAIL

    def make_decrypt(self) -> Decrypt:
        return make_decrypt(self._load, keeps=self.on_failure is OnEncrypted.RAW)

    def _load(self, name: str) -> EncryptionKey:
        path = self.keys.get(name, self.keys.get(ANY))
        if path is None:
            raise CryptoError(f"there is no private key {name!r}")
        try:
            return EncryptionKey(Path(path).read_bytes())
        except OSError as error:
            raise CryptoError(f"{path}: {error.strerror}") from None
