"""Reading entries: from any bookie that has them, from another when one fails or takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from magnetar.errors import BookieUnavailable, BrokerError, LedgerCorrupt
from magnetar.ledger.backends.bookkeeper.client import BookieClient, Surroundings
from magnetar.ledger.backends.bookkeeper.entry import EntryCodec
from magnetar.ledger.backends.bookkeeper.frame import MISSING, Code, spell_code
from magnetar.ledger.backends.bookkeeper.quorum import is_covered, members_of
from magnetar.wire.bookkeeper import LedgerMetadata, Segment

_SINGLE_MAX: Final = 32
"""Entries that are asked for one by one at once."""
_BATCH_OVERHEAD: Final = 36
_BATCH_TRIES: Final = 2
_BATCH_BYTES_MAX: Final = 5 << 20

T = TypeVar("T")


class EntryReader:
    def __init__(self, around: Surroundings, find_client: Callable[[str], BookieClient]) -> None:
        self._around = around
        self._find_client = find_client

    async def read(
        self,
        ledger: int,
        metadata: LedgerMetadata,
        first: int,
        last: int,
        *,
        entries_max: int,
        bytes_max: int,
    ) -> list[bytes]:
        """Entries from `first` on, at least one, all of one segment. Raise LedgerCorrupt when no
        bookie has the first, BookieUnavailable when some that may have it do not answer.
        """
        codec = EntryCodec(ledger, metadata.digest, metadata.password)
        segment, end = _segment_of(metadata, first, last)
        count = min(entries_max, end - first + 1)
        if metadata.write_quorum == len(segment.bookies) and count > 1:
            order = self._order(segment.bookies, ledger)

            async def ask(bookie: str) -> list[bytes]:
                return await self._read_from(bookie, codec, ledger, first, count, bytes_max)

            return await self._try(order, ask, ledger, first)
        return await self._read_singly(codec, ledger, metadata, segment, first, count, bytes_max)

    async def read_last(self, ledger: int, metadata: LedgerMetadata) -> tuple[int, int]:
        """The last confirmed entry that bookies know of a ledger that another writes, and the
        length up to there.
        """
        codec = EntryCodec(ledger, metadata.digest, metadata.password)
        segment = metadata.segments[-1]
        confirmed: dict[int, int] = {}

        async def ask(member: int, bookie: str) -> None:
            try:
                reply = await self._find_client(bookie).read(ledger, -1)
                if reply.code == Code.OK:
                    confirmed[member] = codec.decode(reply.body).last_confirmed
                elif reply.code in MISSING:
                    confirmed[member] = -1
            except (BookieUnavailable, LedgerCorrupt):
                pass

        size = len(segment.bookies)

        def covered() -> bool:
            return is_covered(size, metadata.write_quorum, metadata.ack_quorum, confirmed)

        await self._around.ask_until(covered, [ask(*each) for each in enumerate(segment.bookies)])
        if not covered():
            raise BookieUnavailable(
                f"ledger {ledger}: {len(confirmed)} of {size} bookies say how far it goes"
            )
        last = max(*confirmed.values(), segment.first - 1)
        return (
            (last, await self._length_at(codec, ledger, metadata, last)) if last >= 0 else (-1, 0)
        )

    async def _length_at(
        self, codec: EntryCodec, ledger: int, metadata: LedgerMetadata, entry: int
    ) -> int:
        segment, _ = _segment_of(metadata, entry, entry)

        async def ask(bookie: str) -> int:
            reply = await self._find_client(bookie).read(ledger, entry)
            _check(bookie, ledger, entry, reply.code)
            return codec.decode(reply.body, entry).length

        members = members_of(entry, len(segment.bookies), metadata.write_quorum)
        order = self._order([segment.bookies[each] for each in members], ledger)
        return await self._try(order, ask, ledger, entry)

    async def _read_from(
        self,
        bookie: str,
        codec: EntryCodec,
        ledger: int,
        first: int,
        count: int,
        bytes_max: int,
    ) -> list[bytes]:
        """From a bookie that has all of them."""
        client = self._find_client(bookie)
        bodies = await self._read_batch(client, codec, ledger, first, count, bytes_max)
        if bodies is None:
            count = min(count, _SINGLE_MAX)
            bodies = await self._pipeline([client] * count, ledger, first)
        if not bodies:
            raise LedgerCorrupt(f"{bookie}: nothing of ledger {ledger} from entry {first} on")
        return _take(codec, first, bodies, bytes_max)

    async def _read_batch(
        self,
        client: BookieClient,
        codec: EntryCodec,
        ledger: int,
        first: int,
        count: int,
        bytes_max: int,
    ) -> list[memoryview] | None:
        """None when the bookie seems to be too old to know such a request: it hangs up."""
        if client.refused_batches >= _BATCH_TRIES:
            return None
        overhead = _BATCH_OVERHEAD + count * (4 + codec.overhead)
        size = min(bytes_max + overhead, _BATCH_BYTES_MAX)
        try:
            code, bodies = await client.read_batch(ledger, first, entries_max=count, bytes_max=size)
        except BookieUnavailable:
            if client.refused_batches:
                return None
            raise
        _check(client.bookie, ledger, first, code)
        return bodies

    async def _pipeline(
        self, clients: Sequence[BookieClient], ledger: int, first: int
    ) -> list[memoryview]:
        """Consecutive entries, each from its client, up to the first that fails."""
        asked = [client.begin_read(ledger, first + each) for each, client in enumerate(clients)]
        seconds = self._around.policy.timeout_s
        try:
            async with self._around.clock.timeout(seconds):
                await asyncio.wait(asked)
        except TimeoutError:
            silent = {c for c, answer in zip(clients, asked, strict=True) if not answer.done()}
            for client in silent:
                client.abort(f"did not answer within {seconds:g} s")
        bodies: list[memoryview] = []
        failure: BrokerError | None = None
        for client, answer in zip(clients, asked, strict=True):
            error = answer.exception()
            assert error is None or isinstance(error, BrokerError)
            failure = failure or error
            if failure is None and answer.result().code == Code.OK:
                bodies.append(answer.result().body)
            elif failure is None:
                failure = _refusal(client.bookie, ledger, first, answer.result().code)
        if failure is not None and not bodies:
            raise failure
        return bodies

    async def _read_singly(
        self,
        codec: EntryCodec,
        ledger: int,
        metadata: LedgerMetadata,
        segment: Segment,
        first: int,
        count: int,
        bytes_max: int,
    ) -> list[bytes]:
        """Each from one of the bookies that have it; the first from any of them."""
        size = len(segment.bookies)

        def places(entry: int) -> list[str]:
            members = members_of(entry, size, metadata.write_quorum)
            return self._order([segment.bookies[each] for each in members], ledger)

        async def ask(bookie: str) -> list[bytes]:
            reply = await self._find_client(bookie).read(ledger, first)
            _check(bookie, ledger, first, reply.code)
            return [codec.decode(reply.body, first).payload]

        found = await self._try(places(first), ask, ledger, first)
        left = bytes_max - len(found[0])
        fitting = left // max(1, len(found[0]))
        more = min(count - 1, _SINGLE_MAX, fitting)
        if more > 0:
            clients = [self._find_client(places(first + 1 + each)[0]) for each in range(more)]
            try:
                bodies = await self._pipeline(clients, ledger, first + 1)
                found += _take(codec, first + 1, bodies, left, at_least=0)
            except (BookieUnavailable, LedgerCorrupt):
                pass  # the next read begins with it
        return found

    def _order(self, bookies: Sequence[str], ledger: int) -> list[str]:
        """Those in good standing first; a ledger is read from the same one while that is so, for
        it reads ahead.
        """
        start = ledger % len(bookies)
        turned = [*bookies[start:], *bookies[:start]]
        return sorted(turned, key=self._around.registry.is_quarantined)

    async def _try(
        self,
        bookies: Sequence[str],
        ask: Callable[[str], Coroutine[Any, Any, T]],
        ledger: int,
        entry: int,
    ) -> T:
        """The first good answer; the next bookie is asked after a failure or the speculative
        delay.
        """
        delay_s = self._around.policy.speculative_read_s or None
        waiting = list(bookies)
        pending: set[asyncio.Task[T | BrokerError]] = set()
        failures: list[BrokerError] = []
        try:
            while waiting or pending:
                if waiting:
                    attempt = self._attempt(ask, waiting.pop(0))
                    if delay_s is None:
                        answer = await attempt
                        if not isinstance(answer, BrokerError):
                            return answer
                        failures.append(answer)
                        continue
                    pending.add(self._around.scope.start(attempt, f"read ledger {ledger}"))
                done, pending = await self._wait(pending, delay_s if waiting else None)
                for task in done:
                    answer = task.result()
                    if not isinstance(answer, BrokerError):
                        return answer
                    failures.append(answer)
        finally:
            for task in pending:
                task.cancel()
        reasons = "; ".join(each.sentence for each in failures)
        is_unsure = any(isinstance(each, BookieUnavailable) for each in failures)
        kind = BookieUnavailable if is_unsure else LedgerCorrupt
        raise kind(f"ledger {ledger}, entry {entry}: no bookie gives it: {reasons}")

    async def _attempt(
        self, ask: Callable[[str], Coroutine[Any, Any, T]], bookie: str
    ) -> T | BrokerError:
        try:
            return await ask(bookie)
        except BookieUnavailable as error:
            self._around.registry.fail(bookie, error.sentence)
            return error
        except LedgerCorrupt as error:
            return error

    async def _wait(
        self, tasks: set[asyncio.Task[T]], seconds: float | None
    ) -> tuple[set[asyncio.Task[T]], set[asyncio.Task[T]]]:
        try:
            async with self._around.clock.timeout(seconds):
                return await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return set(), tasks


def _segment_of(metadata: LedgerMetadata, first: int, last: int) -> tuple[Segment, int]:
    """The segment that has the first entry, and the last one up to `last` that it has."""
    for segment in reversed(metadata.segments):
        if segment.first <= first:
            return segment, last
        last = min(last, segment.first - 1)
    raise AssertionError("the first segment begins at entry 0")


def _refusal(bookie: str, ledger: int, entry: int, code: int) -> BrokerError:
    """One that says that the entry is not there is of a kind of its own."""
    if code in MISSING:
        return LedgerCorrupt(f"{bookie} does not have entry {entry} of ledger {ledger}")
    return BookieUnavailable(f"{bookie}: {spell_code(code)}")


def _check(bookie: str, ledger: int, entry: int, code: int) -> None:
    if code != Code.OK:
        raise _refusal(bookie, ledger, entry, code)


def _take(
    codec: EntryCodec,
    first: int,
    bodies: Sequence[memoryview],
    bytes_max: int,
    *,
    at_least: int = 1,
) -> list[bytes]:
    """The payloads, up to the limit and before the first that is damaged."""
    taken: list[bytes] = []
    for number, body in enumerate(bodies, first):
        if len(taken) >= at_least and len(body) - codec.overhead > bytes_max:
            break
        try:
            payload = codec.decode(body, number).payload
        except LedgerCorrupt:
            if taken:
                break
            raise
        taken.append(payload)
        bytes_max -= len(payload)
    return taken
