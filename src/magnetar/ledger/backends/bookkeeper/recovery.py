"""Fencing and sealing a ledger whose writer may still be alive, as every client of BookKeeper does
it.

Bookies know no owners: a fence is a mark that each keeps for a ledger. The steps and their order
decide that nothing is lost which was acknowledged:

1. The record says IN_RECOVERY, so the writer cannot change its ensemble any more.
2. So many bookies of the last ensemble are fenced that no new entry finds its ack quorum.
3. Entries behind the last confirmed one are read, each read fencing too. One found anywhere is
   kept; one that is missing on too many bookies for an ack quorum ends the ledger. When neither is
   certain, nothing is sealed.
4. What was found is written again to its whole quorum. Bookies that fail are replaced in memory.
5. The record says CLOSED, with the replacements. When another closed it first, its end counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from magnetar.errors import (
    BookieUnavailable,
    BrokerError,
    LedgerCorrupt,
    StorageFailed,
    VersionConflict,
)
from magnetar.ledger.backends.bookkeeper.appender import Appender
from magnetar.ledger.backends.bookkeeper.catalogue import (
    LedgerCatalogue,
    apply_close,
    apply_ensemble,
)
from magnetar.ledger.backends.bookkeeper.client import BookieClient, Surroundings
from magnetar.ledger.backends.bookkeeper.entry import Entry, EntryCodec
from magnetar.ledger.backends.bookkeeper.frame import MISSING, Code, Flag
from magnetar.ledger.backends.bookkeeper.quorum import (
    Presence,
    is_covered,
    judge_entry,
    members_of,
)
from magnetar.runtime.log import Logger
from magnetar.wire.bookkeeper import LedgerMetadata, LedgerState, Segment

_log = Logger(__name__)

_WINDOW: Final = 4
_WINDOW_MAX: Final = 64
"""Entries that are looked for at once: few at first, for most ledgers have one or none."""
_FENCED_READ: Final = Flag.FENCE | Flag.HIGH_PRIORITY
_RECOVERY_ADD: Final = Flag.RECOVERY | Flag.HIGH_PRIORITY


class LedgerRecovery:
    """One recovery of one ledger; the caller sees to it that a process runs one at a time."""

    def __init__(
        self,
        ledger: int,
        catalogue: LedgerCatalogue,
        around: Surroundings,
        find_client: Callable[[str], BookieClient],
    ) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._around = around
        self._find_client = find_client

    async def run(self) -> LedgerMetadata:
        """Return the closed record. Raise when the ledger could not be sealed; it can be tried
        again.
        """
        while True:
            found, version = await self._catalogue.load(self._ledger)
            if found.state is LedgerState.CLOSED:
                return found
            try:
                if found.state is LedgerState.OPEN:
                    found = replace(found, state=LedgerState.IN_RECOVERY, token=0)
                    version = await self._catalogue.update(self._ledger, found, version)
                closed = await self._seal(found)
                await self._catalogue.update(self._ledger, closed, version)
            except VersionConflict:
                continue
            _log.info("recovered a ledger", ledger=self._ledger, last=closed.last)
            return closed

    async def _seal(self, metadata: LedgerMetadata) -> LedgerMetadata:
        codec = EntryCodec(self._ledger, metadata.digest, metadata.password)
        segment = metadata.segments[-1]
        last = max(await self._fence(metadata, segment, codec), segment.first - 1)
        length = 0
        if last >= 0:
            owner = next(each for each in reversed(metadata.segments) if each.first <= last)
            at_last = await self._find(metadata, owner, codec, last)
            if at_last is None:
                raise LedgerCorrupt(
                    f"ledger {self._ledger}: entry {last} was confirmed, and its bookies do not"
                    " have it"
                )
            length = at_last.length
        changes: list[tuple[int, tuple[str, ...]]] = []

        async def remember(first: int, bookies: tuple[str, ...]) -> None:
            changes.append((first, bookies))

        appender = Appender(
            self._ledger,
            metadata,
            codec,
            self._around,
            self._find_client,
            remember,
            first=last + 1,
            length=length,
            flags=_RECOVERY_ADD,
        )
        window = _WINDOW
        try:
            while True:
                entries = range(last + 1, last + 1 + window)
                found = await asyncio.gather(
                    *(self._find(metadata, segment, codec, each) for each in entries),
                    return_exceptions=True,
                )
                present = _take_present(found)
                if present:
                    await self._write(appender, present)
                    last += len(present)
                if len(present) < window:
                    break
                window = min(2 * window, _WINDOW_MAX)
        finally:
            appender.release()
        for first, bookies in changes:
            metadata = apply_ensemble(metadata, first, bookies)
        return apply_close(metadata, last, appender.confirmed_length)

    async def _fence(self, metadata: LedgerMetadata, segment: Segment, codec: EntryCodec) -> int:
        """Fence the ensemble; return the last entry that one of its members knows as confirmed."""
        answers: dict[int, int] = {}

        async def ask(member: int, bookie: str) -> None:
            try:
                reply = await self._find_client(bookie).read(
                    self._ledger, -1, flags=Flag.FENCE, key=codec.key
                )
                if reply.code in MISSING:
                    answers[member] = -1
                elif reply.code == Code.OK:
                    answers[member] = codec.decode(reply.body).last_confirmed
                else:
                    self._check_allowed(bookie, reply.code)
            except (BookieUnavailable, LedgerCorrupt) as error:
                _log.warning("bookie not fenced", ledger=self._ledger, reason=error.sentence)

        def covered() -> bool:
            return is_covered(
                len(segment.bookies), metadata.write_quorum, metadata.ack_quorum, answers
            )

        await self._around.ask_until(covered, [ask(*each) for each in enumerate(segment.bookies)])
        if not covered():
            silent = [each for number, each in enumerate(segment.bookies) if number not in answers]
            raise BookieUnavailable(
                f"ledger {self._ledger} cannot be recovered: {len(answers)} of"
                f" {len(segment.bookies)} bookies answer; bring back {', '.join(silent)}"
            )
        return max(answers.values())

    async def _find(
        self, metadata: LedgerMetadata, segment: Segment, codec: EntryCodec, entry: int
    ) -> Entry | None:
        """The entry, or None when it was never acknowledged."""
        size = len(segment.bookies)
        members = members_of(entry, size, metadata.write_quorum)
        answers: dict[int, int | None] = {}
        found: list[Entry] = []

        async def ask(member: int) -> None:
            bookie = segment.bookies[member]
            try:
                reply = await self._find_client(bookie).read(
                    self._ledger, entry, flags=_FENCED_READ, key=codec.key
                )
                self._check_allowed(bookie, reply.code)
                if reply.code == Code.OK:
                    found.append(codec.decode(reply.body, entry))
                answers[member] = reply.code
            except (BookieUnavailable, LedgerCorrupt):
                answers[member] = None

        def judge() -> Presence:
            return judge_entry(answers, members, metadata.ack_quorum)

        await self._around.ask_until(
            lambda: judge() is not Presence.OPEN, [ask(each) for each in members]
        )
        if judge() is Presence.UNDECIDED:
            silent = [segment.bookies[each] for each in members if answers.get(each) is None]
            raise BookieUnavailable(
                f"ledger {self._ledger} cannot be recovered: entry {entry} may be on bookies that"
                f" do not answer; bring back {', '.join(silent)}"
            )
        return found[0] if found else None

    def _check_allowed(self, bookie: str, code: int) -> None:
        if code == Code.UNAUTHORIZED:
            raise StorageFailed(f"{bookie} refuses the password of ledger {self._ledger}")

    async def _write(self, appender: Appender, entries: list[Entry]) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_done(error: BrokerError | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        appender.append([each.payload for each in entries], on_done)
        await answer


def _take_present(found: Sequence[Entry | BaseException | None]) -> list[Entry]:
    """Those before the first that is not there; what is not certain before it is an error."""
    present: list[Entry] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        if each is None:
            break
        present.append(each)
    return present
