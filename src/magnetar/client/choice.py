"""Words and keywords an application chooses from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from magnetar.client.error import ConfigurationError
from magnetar.client.kind import check_kinds
from magnetar.errors import nearest
from magnetar.wire.command import CompressionType, ProducerAccessMode

T = TypeVar("T")

COMPRESSIONS: Final[Mapping[str, CompressionType]] = {
    "none": CompressionType.NONE,
    "lz4": CompressionType.LZ4,
    "zlib": CompressionType.ZLIB,
    "zstd": CompressionType.ZSTD,
    "snappy": CompressionType.SNAPPY,
}
ACCESS_MODES: Final[Mapping[str, ProducerAccessMode]] = {
    "shared": ProducerAccessMode.Shared,
    "exclusive": ProducerAccessMode.Exclusive,
    "wait_for_exclusive": ProducerAccessMode.WaitForExclusive,
    "exclusive_with_fencing": ProducerAccessMode.ExclusiveWithFencing,
}


def choose(what: str, word: str, known: Mapping[str, T]) -> T:
    found = known.get(word) if isinstance(word, str) else None
    if found is None:
        raise ConfigurationError(f"No {what} is called {word!r}; there are {', '.join(known)}")
    return found


def check_options(what: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, naming the nearest that does, and a value of a kind
    that it cannot have.
    """
    names = sorted(known)
    for word in options:
        if word not in names:
            meant = nearest(word, names)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
            raise ConfigurationError(f"{what} has no keyword {word!r}; {hint}")
    check_kinds(options)


def check_keywords(what: str, function: Callable[..., object], unknown: Mapping[str, Any]) -> None:
    """Refuse what a function with keywords of its own was given besides."""
    if unknown:
        check_options(what, unknown, getattr(function, "__kwdefaults__", None) or ())


def check_name(topic: object) -> None:
    if not isinstance(topic, str):
        raise ConfigurationError(
            f"A topic is text such as topic://tenant/namespace/name, not {topic!r}"
        )
