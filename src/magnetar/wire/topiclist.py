"""The hash by which two sides find out that their lists of topics are equal."""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c


def _java_order(name: str) -> bytes:
    """Java compares UTF-16 units; characters beyond them sort differently than here."""
    return name.encode("utf-16-be")


def hash_topics(names: Iterable[str]) -> str:
    """CRC32C of the sorted names, spelled from its lowest byte up."""
    joined = ",".join(sorted(names, key=_java_order))
    return crc32c(joined.encode()).to_bytes(4, "little").hex()
