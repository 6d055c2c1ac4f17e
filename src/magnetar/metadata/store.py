"""The contract of a metadata store: a tree of small versioned records.

Every write names the version it read. A record may stand below a path that holds none: such a
parent exists and can be listed, but has no record to get. Listeners are notified of changes in the
order they happened; a store may also tell of a mere parent that another process made or took away.
A writer's own listeners have been called before its call returns, so that
caches of the same process read their own writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

ABSENT: Final = -1
"""Expect that there is no record: create it."""

ANY_VERSION: Final = -2
"""Expect nothing.

For the few writes where the last one wins by design; everything else names a version.
"""


@dataclass(frozen=True, slots=True)
class Stat:
    """A record's version starts at 0, or at 1 where the store must tell an empty record or one put
    where a parent stood from a mere parent; it grows with every write, may skip numbers, and never
    goes back.

    `created_by_self` is true for ephemeral records of this very session.
    """

    version: int
    created_ms: int
    modified_ms: int
    ephemeral: bool
    created_by_self: bool


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes
    stat: Stat


class ChangeKind(StrEnum):
    CREATED = "Created"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    CHILDREN_CHANGED = "ChildrenChanged"


@dataclass(frozen=True, slots=True)
class Change:
    """CHILDREN_CHANGED names the path whose list of children became another one."""

    kind: ChangeKind
    path: str


class SessionEvent(StrEnum):
    """CONNECTION_LOST and RECONNECTED keep the session; after SESSION_LOST ephemeral records may be
    gone.

    SESSION_REESTABLISHED always follows a RECONNECTED. Changes made in between are not reported,
    so caches of the store are dropped on RECONNECTED.
    """

    CONNECTION_LOST = "ConnectionLost"
    RECONNECTED = "Reconnected"
    SESSION_LOST = "SessionLost"
    SESSION_REESTABLISHED = "SessionReestablished"


ChangeListener: TypeAlias = Callable[[Change], None]
SessionListener: TypeAlias = Callable[[SessionEvent], None]
Cancel: TypeAlias = Callable[[], None]
"""Ends what a registration began; calling it twice is the same as once."""


EMBEDDED_RECORD_BYTES_MAX: Final = 16 << 20
"""Of the stores that a broker keeps itself: one record must not hold up the others for long."""


class MetadataStore(Protocol):
    """Every call raises InvalidPath for an invalid path, StoreClosed after `close`, and
    StoreUnavailable when the store does not answer: a write may then have happened or not.
    """

    @property
    def record_bytes_max(self) -> int:
        """The largest value that its owner should `put`; a larger one may fail."""

    async def get(self, path: str) -> Record | None: ...

    async def exists(self, path: str) -> bool:
        """Whether there is a record, or anything below the path."""

    async def children(self, path: str) -> tuple[str, ...]:
        """Names of the direct children, sorted; empty when the path is missing."""

    async def count_children(self, path: str) -> int:
        """How many names `children` would tell; none of them crosses a wire for it."""

    def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        """Direct children that hold a record, by name, with their records. Not one snapshot."""

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        """Raise VersionConflict unless the stored version is `expect`: a version, ABSENT or
        ANY_VERSION.

        Missing parents come into being. `ephemeral` counts at creation only: the record goes with
        the session that made it. Nothing may be put below an ephemeral record.
        """

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        """Create `prefix-N[-M…]`, each number 20 digits; return its path.

        One counter per delta, from 0, grows by its delta; a number is never given twice under one
        prefix. The first delta is positive, the others are not negative, else BadRequest.
        """

    async def delete(self, path: str, *, expect: int) -> None:
        """Raise RecordNotFound, VersionConflict, or RecordNotEmpty when it has children."""

    async def delete_recursive(self, path: str) -> None:
        """Delete the record and all below it, the deepest first.

        A missing path is not an error. May stop half way.
        """

    async def sync(self, path: str) -> None:
        """After this, a read of the path is at least as fresh as the call."""

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        """Call the listener for every change of the path `prefix` and of all below it, on the event
        loop.

        A listener must be quick and must not raise.
        """

    def watch_session(self, listener: SessionListener) -> Cancel: ...

    @property
    def is_connected(self) -> bool:
        """False between CONNECTION_LOST and RECONNECTED."""

    @property
    def has_session(self) -> bool:
        """False from the moment at which the server may have ended the session, whatever was heard
        of it: a process that was not run for long learns it before it does anything else.
        """

    async def close(self) -> None:
        """Finish the writes that were asked for, end the session with its ephemeral records, then
        refuse everything.
        """
