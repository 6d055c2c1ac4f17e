"""A cursor: how far one subscription has come in a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from magnetar.ledger.ackset import AckSet, describe_beyond
from magnetar.ledger.cursor_ledger import CursorHome
from magnetar.ledger.cursor_log import CursorLog
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo


class Cursor(AckSet):
    """A set of acknowledgements that is kept: they change memory at once and are written behind;
    `flush` waits for them.

    `read_position` belongs to the reader of the cursor. A cursor that is not durable holds
    back trimming like any other, and vanishes when it is closed.
    """

    def __init__(
        self,
        name: str,
        sequence: LedgerSequence,
        info: CursorInfo,
        *,
        on_gone: Callable[[Cursor], None],
        home: CursorHome | None = None,
        version: int = -1,
    ) -> None:
        super().__init__(sequence, info)
        self.name = name
        self.properties = dict(info.properties)
        self.cursor_properties = dict(info.cursor_properties)
        self._rest = info.rest
        self._on_gone = on_gone
        self._log: CursorLog | None = None
        if home is not None:
            self._log = CursorLog(
                home, name, self.describe, ledger_id=info.ledger_id, version=version
            )
        self.read_position = self.first_unacked()

    def __repr__(self) -> str:
        return f"Cursor({self.name!r}, mark_delete={self.mark_delete})"

    # Acknowledging

    def acknowledge(self, ledger_id: int, entry_id: int) -> None:
        if self.add_next(ledger_id, entry_id) or self.add(ledger_id, entry_id, entry_id):
            log = self._log
            if log is not None and not log.dirty:
                log.soil()

    def acknowledge_entries(self, ledger_id: int, entry_ids: list[int]) -> None:
        """Any order; consecutive ids cost as much as one."""
        if entry_ids and self.add_entries(ledger_id, entry_ids):
            self._soil()

    def acknowledge_through(self, position: Position) -> None:
        """Everything up to and including `position`, as far as it exists."""
        if self.add_through(position):
            self._soil()

    def acknowledge_batch(self, ledger_id: int, entry_id: int, remaining: int) -> bool:
        """Keep of a batch only the `remaining` bits (1 = not acknowledged); True when that ended
        the entry.
        """
        done = self.add_batch(ledger_id, entry_id, remaining)
        if done is None:
            return False
        self._soil()
        return done

    # Asking

    @property
    def durable(self) -> bool:
        return self._log is not None

    @property
    def ledger_id(self) -> int:
        """The cursor's own ledger, -1 when its state is in its record or nowhere."""
        return -1 if self._log is None else self._log.ledger.id

    @property
    def ledger_last_entry(self) -> int:
        return -1 if self._log is None else self._log.ledger.last_entry

    def first_unacked(self) -> Position:
        """The first entry not acknowledged, or the end of the log."""
        return self._sequence.next_position(self.mark_delete)

    def describe(self) -> CursorInfo:
        ranges, bits = describe_beyond(self)
        return CursorInfo(
            ledger_id=self.ledger_id,
            mark_delete=self.mark_delete,
            ranges=ranges,
            bits=bits,
            batches=self.batches(),
            properties=dict(self.properties),
            cursor_properties=dict(self.cursor_properties),
            rest=self._rest,
        )

    # Keeping

    async def flush(self) -> None:
        """Everything acknowledged so far is durable when this returns; concurrent calls share a
        write.
        """
        if self._log is not None:
            await self._log.flush()

    async def reset(self, position: Position) -> None:
        """Make `position` (EARLIEST and LATEST included) the first unread entry; durable when this
        returns.
        """
        self.move_mark(self._sequence.mark_before(position))
        self.read_position = self.first_unacked()
        if self._log is not None:
            await self._log.dissolve()

    async def set_properties(
        self,
        properties: Mapping[str, int] | None = None,
        cursor_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Replace either or both; durable when this returns."""
        if properties is not None:
            self.properties = dict(properties)
        if cursor_properties is not None:
            self.cursor_properties = dict(cursor_properties)
        if self._log is None:
            return
        if cursor_properties is not None:
            await self._log.dissolve()
        elif properties is not None:
            self._log.soil()
            await self._log.flush()

    async def close(self) -> None:
        """Write what is not written. A cursor that is not durable is gone after this."""
        if self._log is not None:
            await self._log.close()
        else:
            self._on_gone(self)

    async def store(self) -> None:
        """Create the metadata record unless that was done."""
        if self._log is not None and self._log.ledger.version < 0:
            await self._log.dissolve()

    def abandon(self) -> None:
        """It could not be stored: write nothing of it later."""
        if self._log is not None:
            self._log.abandon()
        self._on_gone(self)

    async def remove(self) -> None:
        """Delete what is stored of the cursor."""
        if self._log is not None:
            await self._log.remove()
        self._on_gone(self)

    def _soil(self) -> None:
        if self._log is not None and not self._log.dirty:
            self._log.soil()
