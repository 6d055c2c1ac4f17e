"""End-to-end encryption: which keys, and what to do without them. The broker sees only ciphertext.

Each payload is encrypted with a data key that the producer made up; the message carries that key
wrapped with the public key of each reader. The algorithms are in `cipher`, which needs the
`encryption` extra.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from magnetar.client.error import ConfigurationError, CryptoError
from magnetar.runtime.worker import run_in_thread
from magnetar.wire.command import MessageMetadata

RENEWAL_S: Final = 4 * 3600.0
"""How long a producer uses one data key."""


class EncryptionKey(NamedTuple):
    """A key in PEM, and what a producer wants its readers to know about it."""

    pem: bytes
    metadata: Mapping[str, str] = {}


class KeyProvider(Protocol):
    """Where keys come from; both may be plain or async functions."""

    def public_key(self, name: str) -> EncryptionKey | Awaitable[EncryptionKey]: ...

    def private_key(
        self, name: str, metadata: Mapping[str, str]
    ) -> EncryptionKey | Awaitable[EncryptionKey]: ...


_Pem: TypeAlias = bytes | str | PathLike[str]


@dataclass(frozen=True)
class PemKeys:
    """Keys by name: the PEM itself as bytes, or the path of its file, read each time."""

    public: Mapping[str, _Pem] = field(default_factory=dict)
    private: Mapping[str, _Pem] = field(default_factory=dict)

    async def public_key(self, name: str) -> EncryptionKey:
        return await _read(self.public, name, "public")

    async def private_key(self, name: str, metadata: Mapping[str, str]) -> EncryptionKey:
        return await _read(self.private, name, "private")

    def __repr__(self) -> str:
        return f"PemKeys(public={sorted(self.public)}, private={sorted(self.private)})"


async def _read(keys: Mapping[str, _Pem], name: str, kind: str) -> EncryptionKey:
    found = keys.get(name)
    if found is None:
        raise CryptoError(f"There is no {kind} key {name!r}; there are {sorted(keys)}")
    if isinstance(found, bytes):
        return EncryptionKey(found)
    try:
        return EncryptionKey(await run_in_thread(Path(found).read_bytes))
    except OSError as error:
        raise CryptoError(f"The {kind} key {name!r} cannot be read: {error}") from None


class ProducerFailure(StrEnum):
    """What becomes of a message that cannot be encrypted."""

    FAIL = "fail"
    SEND_UNENCRYPTED = "send_unencrypted"


class ConsumerFailure(StrEnum):
    """What becomes of a message that cannot be decrypted."""

    FAIL = "fail"
    """It is not delivered and stays unacknowledged: it is redelivered."""
    DISCARD = "discard"
    """It is acknowledged unread."""
    CONSUME = "consume"
    """It is delivered as it is; `is_encrypted` says so."""


@dataclass(frozen=True, slots=True)
class ProducerEncryption:
    """Encrypt for the holders of the private keys to `names`."""

    keys: KeyProvider
    names: Sequence[str]
    on_failure: ProducerFailure | str = ProducerFailure.FAIL

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not self.names:
            raise ConfigurationError('names is a list of key names: names=["orders"]')
        _check_word("on_failure", self.on_failure, [str(word) for word in ProducerFailure])


@dataclass(frozen=True, slots=True)
class ConsumerEncryption:
    """Decrypt with whichever private key the provider has."""

    keys: KeyProvider | None = None
    on_failure: ConsumerFailure | str = ConsumerFailure.FAIL

    def __post_init__(self) -> None:
        _check_word("on_failure", self.on_failure, [str(word) for word in ConsumerFailure])
        if self.keys is None and self.on_failure == ConsumerFailure.FAIL:
            raise ConfigurationError("keys is needed, unless on_failure is discard or consume")


class Sealer(Protocol):
    """A producer's side."""

    async def renew(self) -> None:
        """Make a new data key; raises CryptoError when a key is missing or useless."""

    def seal(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Encrypt, and say in the metadata how."""


class Opener(Protocol):
    """A consumer's side."""

    def require(self, metadata: MessageMetadata) -> None:
        """Raise Unprepared unless the data key was looked for already."""

    def open(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Decrypt, or raise CryptoError."""


def _check_word(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise ConfigurationError(f"No {what} is called {word!r}; there are {', '.join(known)}")
