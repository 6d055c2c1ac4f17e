"""When a cursor's state is written: with the commits of the store, or at a pace of its own.

Each write is the whole state, as one entry in a ledger of the cursor's own (`cursor_ledger`), so
that the group commit of the ledger store is shared. At rest (a new cursor, a clean close, a seek)
the metadata record holds the state and there is no ledger; but brokers of Apache Pulsar, which may
be the next to read it in a shared store, look for batches that are acknowledged in part in a ledger
only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from magnetar.errors import BrokerError, LedgerSealed, TopicFenced
from magnetar.ledger.cursor_ledger import CursorHome, CursorLedger
from magnetar.ledger.info import LogState
from magnetar.model.stored_log import CursorInfo
from magnetar.runtime.clock import Timer
from magnetar.runtime.log import Logger

_RECORD_BYTES_MAX: Final = 256 * 1024  # what a metadata store takes without complaint
_RANGE_BYTES: Final = 32
"""Of a range in a record, which has no bits."""
_RETRY_S: Final = 1.0

_log = Logger(__name__)


class CursorLog:
    """One write at a time. Callers that wait while one is under way share the next."""

    def __init__(
        self,
        home: CursorHome,
        name: str,
        snapshot: Callable[[], CursorInfo],
        *,
        ledger_id: int = -1,
        version: int = -1,
    ) -> None:
        self._home = home
        self._name = name
        self._snapshot = snapshot
        self._loop = asyncio.get_running_loop()
        self.ledger = CursorLedger(home, name, ledger_id=ledger_id, version=version)
        self.dirty = False
        self._size = 0
        self._written_at = float("-inf")
        self._timer: Timer | None = None
        self._busy = False
        self._joining = False
        self._entering = 0
        self._closed = False
        self._writing: list[asyncio.Future[None]] = []  # answered by the write under way
        self._waiting: list[asyncio.Future[None]] = []  # answered by the next one

    # Asking for writes

    def soil(self) -> None:
        """The state has changed; write it when its time comes."""
        self.dirty = True
        if self._timer is None and not self._busy and not self._closed:
            self._await_turn()

    async def flush(self) -> None:
        """Return once the state as it is now is durable."""
        if not self.dirty and not self._busy and self.ledger.is_certain:
            return
        if self._closed:
            raise TopicFenced(f"cursor {self._name} of {self._home.name} is closed")
        if self.ledger.lost is not None:
            raise self.ledger.lost
        answer: asyncio.Future[None] = self._loop.create_future()
        if self._busy and not self.dirty:
            self._writing.append(answer)
        else:
            self._waiting.append(answer)
            if not self._busy:
                self._hasten()
        await answer

    async def dissolve(self) -> None:
        """Put the state into the metadata record and do without a ledger, unless it is too big for
        a record, or other brokers would read only a part of it there; durable when this returns.
        """
        await self._dissolve(is_promised=True)

    async def _dissolve(self, *, is_promised: bool) -> None:
        await self._enter()
        try:
            info = self._take()
            is_partial = self._home.store.is_apache_readable and bool(info.batches)
            data = self._home.records.encode_cursor(info)
            if is_partial or max(len(data), info.range_count * _RANGE_BYTES) > _RECORD_BYTES_MAX:
                await self.ledger.roll_over(self._take_encoded)
            else:
                await self.ledger.dissolve(info)
            if is_promised or self._writing:
                await self.ledger.make_certain()
        except BrokerError as error:
            self._leave(error)
            raise
        self._leave(None)
        await self._home.disposal.run()

    async def close(self) -> None:
        """Dissolve what there is, then stay silent."""
        if self._closed:
            return
        try:
            if self.ledger.lost is None and (self.dirty or self._busy or self.ledger.id >= 0):
                await self._dissolve(is_promised=False)
        finally:
            self._silence()
            await self.ledger.seal()

    def abandon(self) -> None:
        """Stay silent: a write that failed is not tried again."""
        self._silence()
        self._refuse_waiting()

    async def remove(self) -> None:
        """Delete the record, then the ledger."""
        await self._enter()
        try:
            await self.ledger.remove()
            if self._home.record.state is not LogState.CLOSED:  # else it goes with its log
                await self.ledger.make_certain()
        except BrokerError as error:
            self._leave(error)
            raise
        self._silence()
        self._leave(None)
        await self._home.disposal.run()

    # Writing

    def _hasten(self) -> None:
        self._set_timer(None)
        wait_s = self._home.pace.wait_s(self._written_at, self._size)
        if wait_s > 0:
            self._set_timer(wait_s)
        else:
            self._on_due()

    def _await_turn(self) -> None:
        """Write with the next commit of the store, or when the time for one of its own has come: a
        rate that the operator chose holds for the latter.
        """
        rate = self._home.policy.cursor_writes_per_s
        place_s = self._home.pace.reserve(self._size)
        self._set_timer(place_s if rate <= 0 else max(place_s, 1 / rate))
        if self._home.pace.may_join(place_s):
            self._join()

    def _join(self) -> None:
        if not self._joining:
            self._joining = True
            self._home.store.join(self._on_commit)

    def _on_commit(self) -> None:
        self._joining = False
        if self._timer is None:
            return  # written, being written or closed by now
        if self._home.pace.join_wait_s(self._written_at) > 0:
            self._join()
        else:
            self._set_timer(None)
            self._on_due()

    def _on_due(self) -> None:
        self._timer = None
        if self._busy or self._closed:
            return
        self._busy = True
        if self.ledger.has_room:
            _, data = self._take_encoded()
            try:
                self.ledger.append(data, self._on_written)
                return
            except LedgerSealed:
                pass  # it is replaced
        self._home.scope.start(self._rewrite(), f"cursor {self._name}")

    def _on_written(self, error: BrokerError | None) -> None:
        if error is None and (self.ledger.is_certain or not self._writing):
            self._leave(None)
        elif error is None:
            self._home.scope.start(self._make_certain(), f"cursor {self._name}")
        elif self._closed:
            self._leave(error)
        else:
            self._home.scope.start(self._rewrite(), f"cursor {self._name}")

    async def _rewrite(self) -> None:
        """Write the state to a fresh ledger; called when busy."""
        try:
            await self.ledger.roll_over(self._take_encoded)
            if self._writing:
                await self.ledger.make_certain()
        except BrokerError as error:
            self._fail(error)
        else:
            self._leave(None)
            await self._home.disposal.run()

    async def _make_certain(self) -> None:
        """For those who wait for what was just written; called when busy."""
        try:
            await self.ledger.make_certain()
        except BrokerError as error:
            self._fail(error)
        else:
            self._leave(None)

    def _fail(self, error: BrokerError) -> None:
        _log.warning(
            "cursor not written",
            log=self._home.name,
            cursor=self._name,
            reason=f"{type(error).__name__}: {error.sentence}",
        )
        self._leave(error)

    # The one write at a time

    async def _enter(self) -> None:
        """Become the write under way, before any other that has not started."""
        self._entering += 1
        try:
            while self._busy:
                answer: asyncio.Future[None] = self._loop.create_future()
                self._writing.append(answer)
                await asyncio.wait([answer])
                answer.exception()  # another caller's failure
        finally:
            self._entering -= 1
        self._busy = True
        self._set_timer(None)

    def _take(self) -> CursorInfo:
        """The state to write; its waiters are answered by this write."""
        self.dirty = False
        self._writing += self._waiting
        self._waiting = []
        return self._snapshot()

    def _take_encoded(self) -> tuple[CursorInfo, bytes]:
        info = self._take()
        data = self._home.records.encode_cursor(info)
        self._size = max(len(data), len(info.ranges) * _RANGE_BYTES)  # they take time too
        self._written_at = self._home.pace.now()
        return info, data

    def _leave(self, error: BrokerError | None) -> None:
        self._busy = False
        answered, self._writing = self._writing, []
        if error is not None:
            self.dirty = True
        for answer in answered:
            if not answer.done():
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)
        if self._closed or self.ledger.lost is not None:
            self._refuse_waiting()
        elif self._entering:
            self._set_timer(_RETRY_S)  # in case who wants to enter gives up
        elif error is not None:
            self._set_timer(_RETRY_S)  # at once, what failed without a wait would fail for ever
        elif self._waiting:
            self._hasten()
        elif self.dirty:
            self._await_turn()

    def _refuse_waiting(self) -> None:
        refused, self._waiting = self._waiting, []
        for answer in refused:
            if not answer.done():
                answer.set_exception(TopicFenced(f"cursor {self._name} is closed or taken over"))

    def _silence(self) -> None:
        self._closed = True
        self._set_timer(None)

    def _set_timer(self, delay_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if delay_s is None else self._home.clock.call_later(delay_s, self._on_due)
        )
