"""Words and keywords an application chooses from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from magnetar.client.error import ConfigurationError
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
    found = known.get(word)
    if found is None:
        raise ConfigurationError(f"No {what} is called {word!r}; there are {', '.join(known)}")
    return found


def check_options(what: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, and name the nearest that does."""
    names = sorted(known)
    for word in options:
        if word not in names:
            nearest = difflib.get_close_matches(word, names, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
            raise ConfigurationError(f"{what} has no keyword {word!r}; {hint}")
