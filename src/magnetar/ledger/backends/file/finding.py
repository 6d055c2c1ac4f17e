"""What an examination of a store's directory can find."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class FindingKind(StrEnum):
    TORN = "torn tail"
    """A write that a crash interrupted; nothing in it was acknowledged."""
    SURPLUS = "surplus"
    """A file or a tail that nothing refers to; a crash left it behind."""
    DAMAGE = "damage"
    """Bytes that do not match their checksum."""
    MENDED = "mended"
    """Bytes that do not match their checksum, of which nothing is lost."""
    MISSING = "missing"
    """Something that must be there is not."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    path: Path
    offset: int
    sentence: str
    ledger: int | None = None

    @property
    def is_harmless(self) -> bool:
        """Whether the next start puts it right without losing anything that was acknowledged."""
        return self.kind not in (FindingKind.DAMAGE, FindingKind.MISSING)

    def __str__(self) -> str:
        return f"{self.kind}: {self.path} at offset {self.offset}: {self.sentence}"
