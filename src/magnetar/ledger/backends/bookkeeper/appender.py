"""Entries on their way to an ensemble of bookies, and what happens when one of those fails.

An entry goes to its write quorum at once and counts when its ack quorum has it and all before it
are counted. A bookie that fails is replaced: nothing is counted meanwhile, the change is recorded
before an answer of the new bookie counts, and what was not counted is sent again. So a
recovery of the ledger asks bookies that have every entry that was counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from magnetar.errors import (
    BrokerError,
    EntryTooLarge,
    LedgerFenced,
    LedgerSealed,
    NotEnoughBookies,
    StorageFailed,
)
from magnetar.ledger.backends.bookkeeper.client import BookieClient, Surroundings, TellingClient
from magnetar.ledger.backends.bookkeeper.entry import EntryCodec
from magnetar.ledger.backends.bookkeeper.frame import (
    ADD,
    Code,
    Flag,
    encode_header,
    spell_code,
)
from magnetar.ledger.backends.bookkeeper.placement import choose_replacement
from magnetar.ledger.backends.bookkeeper.quorum import AckQuorum, is_viable, members_of
from magnetar.ledger.store import Appended
from magnetar.runtime.log import Logger
from magnetar.wire.bookkeeper import LedgerMetadata

_log = Logger(__name__)

RecordChange: TypeAlias = Callable[[int, tuple[str, ...]], Awaitable[None]]
"""Makes it known that these bookies have the entries from the first one on."""

_PIECES = 5
"""Of a frame, as the codec makes them."""


@dataclass(slots=True)
class _Run:
    first: int
    entries: Sequence[bytes]
    size: int
    before: int
    """Payload bytes of the ledger before it."""
    done: Appended
    error: BrokerError | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


class Appender:
    """The writing end of one ledger. It is alive until it fails or is stopped."""

    def __init__(
        self,
        ledger: int,
        metadata: LedgerMetadata,
        codec: EntryCodec,
        around: Surroundings,
        find_client: Callable[[str], BookieClient],
        record_change: RecordChange,
        *,
        first: int = 0,
        length: int = 0,
        flags: Flag = Flag.NONE,
    ) -> None:
        self.ledger = ledger
        self.error: BrokerError | None = None
        self.queued_bytes = 0
        self._codec = codec
        self._around = around
        self._find_client = find_client
        self._record_change = record_change
        self._head = encode_header(ADD, flags) + codec.key
        self._write_quorum, self._ack_quorum = metadata.write_quorum, metadata.ack_quorum
        self._bookies = list(metadata.segments[-1].bookies)
        self._quorum = AckQuorum(
            len(self._bookies), self._write_quorum, self._ack_quorum, first=first
        )
        self._clients = [find_client(bookie) for bookie in self._bookies]
        self._heard = [0.0] * len(self._bookies)
        """For each member when it last answered, or owed no answer."""
        self._runs: deque[_Run] = deque()
        self._next = first
        self._length = length
        self._confirmed_length = length
        self._lost: dict[int, str] = {}
        """Members to be replaced, and why."""
        self._shunned: set[str] = set()
        self._told = -1
        self._is_changing = False
        self._is_stopped = False
        self._drained: asyncio.Future[None] | None = None
        for member, client in enumerate(self._clients):
            client.attach(ledger, self, member)
        around.watched[self] = None

    @property
    def confirmed(self) -> int:
        return self._quorum.confirmed

    @property
    def confirmed_length(self) -> int:
        """Payload bytes up to the confirmed entry."""
        return self._confirmed_length

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> int:
        if self._is_stopped or self.error is not None:
            raise LedgerSealed(f"ledger {self.ledger} takes no more entries")
        size = size if size >= 0 else sum(map(len, entries))
        run = _Run(self._next, entries, size, self._length, done)
        self._runs.append(run)
        self.queued_bytes += size
        self._next += len(entries)
        self._length += size
        largest = self._around.policy.frame_bytes_max - len(self._head) - self._codec.overhead
        if size > largest and (too_large := max(map(len, entries))) > largest:
            # Bookies would close their connections over it, one after the other.
            run.error = EntryTooLarge(
                f"an entry of {too_large} bytes; bookies take at most {largest}"
            )
            self._is_stopped = True
            asyncio.get_running_loop().call_soon(self.advance)
            return run.first
        self._send(run, run.first, range(len(self._bookies)))
        return run.first

    def stop(self) -> None:
        """Take nothing more; what was taken goes on."""
        self._is_stopped = True

    async def drain(self) -> None:
        """Wait until everything that was taken is answered."""
        while self._runs:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained])

    def fail(self, error: BrokerError) -> None:
        """Refuse what is not answered and everything after it.

        A run is answered as a whole. The ledger ends before a run that is refused, though a part of
        it may be durable: its producer sends all of it again.
        """
        if self.error is not None:
            return
        self.error = error
        runs, self._runs = self._runs, deque()
        if runs and runs[0].first <= self.confirmed:
            self._quorum.confirmed = runs[0].first - 1
            self._confirmed_length = runs[0].before
        self.queued_bytes = 0
        self.release()
        for run in runs:
            run.done(error)
        self._tell_drained()

    def release(self) -> None:
        """Let go of the bookies."""
        self._around.watched.pop(self, None)
        for client in self._clients:
            client.detach(self.ledger, self)

    # What the bookies answer

    def on_added(self, member: int, entry: int) -> None:
        self._quorum.acknowledge(member, entry)
        self._heard[member] = 0.0

    def on_refused(self, member: int, code: int) -> None:
        if code == Code.FENCED:
            self.fail(LedgerFenced(f"ledger {self.ledger} was taken over by another owner"))
        elif code == Code.UNAUTHORIZED:
            self.fail(
                StorageFailed(
                    f"{self._bookies[member]} refuses the password of ledger {self.ledger}"
                )
            )
        else:
            self._lose(member, spell_code(code))

    def on_lost(self, member: int, reason: str) -> None:
        if self._quorum.is_owing(member, self._next - 1):
            self._lose(member, reason)

    def advance(self) -> None:
        if self._is_changing or self.error is not None:
            return
        moved = self._quorum.confirm(self._next - 1)
        runs = self._runs
        while runs and (runs[0].last <= self.confirmed or runs[0].error is not None):
            run = runs.popleft()
            if run.error is not None:
                runs.appendleft(run)
                self.fail(run.error)
                return
            self.queued_bytes -= run.size
            self._confirmed_length = run.before + run.size
            run.done(None)
            if self.error is not None:
                return
        if moved and not runs:
            self._tell_drained()

    def check(self, now: float) -> None:
        """Give up on members that owe answers and are silent, or cannot keep up."""
        policy = self._around.policy
        for member, client in enumerate(self._clients):
            if member in self._lost:
                continue
            if not self._quorum.is_owing(member, self._next - 1) or not self._heard[member]:
                self._heard[member] = now
            elif now - self._heard[member] > policy.timeout_s:
                self._lose(member, f"no answer within {policy.timeout_s:g} s")
            elif client.buffered_bytes > policy.buffered_bytes_max:
                self._lose(member, f"{client.buffered_bytes} bytes wait to be sent to it")

    def reconsider(self) -> None:
        """Bookies came or may be chosen again: replace what could not be replaced before."""
        if self._lost and not self._is_changing and self.error is None:
            self._is_changing = True
            self._around.scope.start(self._change(), f"ensemble of ledger {self.ledger}")

    def tell_last(self, find_client: Callable[[str], TellingClient]) -> None:
        """Tell the bookies the confirmed entry when no entry behind it does."""
        last = self.confirmed
        if last > self._told and not self._runs:
            self._told = last
            body = self._codec.encode_last(last)
            for bookie in self._bookies:
                find_client(bookie).tell_last(self.ledger, last, self._codec.key, body)

    # Bookies that fail

    def _lose(self, member: int, reason: str) -> None:
        if self.error is not None or member in self._lost:
            return
        bookie = self._bookies[member]
        self._lost[member] = reason
        self._shunned.add(bookie)
        self._clients[member].counts.bookie_add_failures += 1
        self._clients[member].detach(self.ledger, self)
        self._around.registry.fail(bookie, reason)
        self.reconsider()

    async def _change(self) -> None:
        """Replace the lost members; called with `_is_changing` set, so that nothing is counted."""
        try:
            while self._lost and self.error is None:
                chosen = self._choose()
                if not chosen:
                    break
                bookies = tuple(
                    chosen.get(each, bookie) for each, bookie in enumerate(self._bookies)
                )
                first = self.confirmed + 1
                await self._record_change(first, bookies)
                if self.error is not None:
                    return
                _log.info(
                    "replaced bookies",
                    ledger=self.ledger,
                    first=first,
                    bookies=" ".join(chosen.values()),
                )
                for member, bookie in chosen.items():
                    self._replace(member, bookie)
        except BrokerError as error:
            self.fail(error)
        finally:
            self._is_changing = False
        size = len(self._bookies)
        if not is_viable(size, self._write_quorum, self._ack_quorum, self._lost):
            reasons = "; ".join(f"{self._bookies[m]}: {why}" for m, why in self._lost.items())
            self.fail(NotEnoughBookies(f"no bookie can take the place of those lost: {reasons}"))
        self.advance()

    def _choose(self) -> dict[int, str]:
        registry, policy = self._around.registry, self._around.policy
        preferred, failed = registry.candidates()
        others = [each for each in failed if each not in self._shunned]
        chosen: dict[int, str] = {}
        for member in self._lost:
            found = choose_replacement(
                preferred,
                others,
                registry.known.racks,
                ensemble=self._bookies,
                member=member,
                write_quorum=self._write_quorum,
                min_racks=policy.min_racks,
                excluded=chosen.values(),
                choose=self._around.clock.chance.choice,
            )
            if found is not None:
                chosen[member] = found
        return chosen

    def _replace(self, member: int, bookie: str) -> None:
        client = self._find_client(bookie)
        self._lost.pop(member)
        self._bookies[member] = bookie
        self._clients[member] = client
        self._heard[member] = 0.0
        first = self._quorum.replace(member)
        client.attach(self.ledger, self, member)
        for run in self._runs:
            if run.last >= first:
                self._send(run, max(first, run.first), (member,))

    def _send(self, run: _Run, first: int, members: Sequence[int]) -> None:
        skipped = first - run.first
        entries = run.entries[skipped:] if skipped else run.entries
        before = run.before + sum(map(len, run.entries[:skipped]))
        pieces = self._codec.encode(self._head, first, entries, self.confirmed, before)
        size = len(self._bookies)
        if self._write_quorum == size:
            frames = b"".join(pieces)
            for member in members:
                if member not in self._lost:
                    self._clients[member].add(frames, len(entries))
            return
        parts: dict[int, list[bytes]] = {
            member: [] for member in members if member not in self._lost
        }
        for number in range(len(entries)):
            for member in members_of(first + number, size, self._write_quorum):
                if member in parts:
                    parts[member] += pieces[number * _PIECES : (number + 1) * _PIECES]
        for member, part in parts.items():
            if part:
                self._clients[member].add(b"".join(part), len(part) // _PIECES)

    def _tell_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
