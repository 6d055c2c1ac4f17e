"""How many messages stand between two places of a log, and how far so many messages reach.

An entry holds a batch, so that only reading tells. What was read is remembered as sums over blocks
of a ledger's entries: the same stretch is not read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import Position

BLOCK: Final = 256
_READ_BYTES: Final = 4 << 20


class Amount(NamedTuple):
    messages: int = 0
    size: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.messages + other.messages, self.size + other.size)


@dataclass(frozen=True, slots=True)
class Allowance:
    """None is no limit. The first entry may be `forced`: it is read whatever it holds."""

    messages: int | None = None
    size: int | None = None
    is_forced: bool = False

    def admits(self, amount: Amount) -> bool:
        return (self.messages is None or amount.messages <= self.messages) and (
            self.size is None or amount.size <= self.size
        )


class Reach(NamedTuple):
    """The last entry that is within an allowance, and the one behind it; None at the end."""

    position: Position
    amount: Amount
    following: bytes | None


class RunSource(Protocol):
    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None: ...


class MessageCount:
    """Of one log, as long as it is open."""

    def __init__(self, sequence: LedgerSequence, reader: RunSource) -> None:
        self._sequence = sequence
        self._reader = reader
        self._blocks: dict[tuple[int, int], Amount] = {}
        """By ledger and the number of a block that is full."""
        self._begun: dict[tuple[int, int], tuple[int, Amount]] = {}
        """Of blocks that were read in part: the entry that follows, and what stands before it."""

    async def reach(self, after: Position, through: Position, allowed: Allowance) -> Reach:
        """How far one gets behind `after`, and no further than `through`."""
        self._forget_trimmed()
        position, amount = after, Amount()
        while True:
            start = self._sequence.ceiling(Position(position.ledger_id, position.entry_id + 1))
            if start is None or start > through:
                return Reach(position, amount, None)
            known = self._known_block(start, through)
            if known is not None and allowed.admits(amount.plus(known)):
                position = Position(start.ledger_id, start.entry_id + BLOCK - 1)
                amount = amount.plus(known)
                continue
            left = BLOCK - start.entry_id % BLOCK
            run = await self._reader.read(start, left, _READ_BYTES)
            if run is None:
                return Reach(position, amount, None)
            self._learn(run)
            for index, (data, count) in enumerate(zip(run.data, run.counts, strict=True)):
                place = Position(run.ledger_id, run.first + index)
                if place > through:
                    return Reach(position, amount, None)
                more = amount.plus(Amount(count, len(data)))
                if not allowed.admits(more) and (not allowed.is_forced or position != after):
                    return Reach(position, amount, data)
                position, amount = place, more

    def _known_block(self, start: Position, through: Position) -> Amount | None:
        """What a block holds that begins here and is wanted as a whole."""
        if (
            start.entry_id % BLOCK
            or Position(start.ledger_id, start.entry_id + BLOCK - 1) > through
        ):
            return None
        return self._blocks.get((start.ledger_id, start.entry_id // BLOCK))

    def _learn(self, run: EntryRun) -> None:
        """A run lies within one block."""
        key = run.ledger_id, run.first // BLOCK
        following, amount = self._begun.pop(key, (key[1] * BLOCK, Amount()))
        if run.first == following:
            following += len(run)
            amount = amount.plus(Amount(sum(run.counts), sum(map(len, run.data))))
        if following == (key[1] + 1) * BLOCK:
            self._blocks[key] = amount
        elif following > key[1] * BLOCK:
            self._begun[key] = following, amount

    def _forget_trimmed(self) -> None:
        present = self._sequence.by_id
        for known in (self._blocks, self._begun):
            for key in [key for key in known if key[0] not in present]:
                del known[key]
