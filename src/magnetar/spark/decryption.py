"""Encrypted messages: which private keys a query has, and what becomes of what they do not open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from magnetar import CryptoError, EncryptionKey
from magnetar.columns import Decrypt, make_decrypt

ANY: Final = "*"
"""Stands for keys of all names."""


class OnEncrypted(StrEnum):
    """What becomes of an undecryptable entry."""

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
