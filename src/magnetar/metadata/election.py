"""Leader election: an ephemeral record says who leads, a lasting one how often leadership has
begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from magnetar.errors import (
    RecordNotFound,
    RecordUnreadable,
    StoreClosed,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.store import (
    ABSENT,
    Change,
    ChangeKind,
    MetadataStore,
    Record,
    SessionEvent,
)
from magnetar.model.position import Term
from magnetar.runtime.clock import Clock
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_DECIDED_S: Final = 30.0


class ElectionState(StrEnum):
    NO_LEADER = "NoLeader"
    LEADING = "Leading"
    FOLLOWING = "Following"


class Election:
    """One candidate. `on_change` is called with each new state, on the event loop.

    `proposal` is what the record holds while this candidate leads and must differ between
    candidates. The term grows with every leadership of anyone: it is counted up after the record
    was won, and used only if the record is still ours then. So a later leader has a higher term,
    whatever a slow earlier one still does.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        proposal: bytes,
        *,
        clock: Clock,
        on_change: Callable[[ElectionState], None] | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self._proposal = proposal
        self._clock = clock
        self._on_state = on_change
        self._scope = TaskScope("election")
        self._reconciler = Reconciler(self._scope, path, self._look, clock=clock)
        self._state = ElectionState.NO_LEADER
        self._leader: bytes | None = None
        self._term = Term(0)
        self._is_closed = False
        self._looking = asyncio.Lock()
        self._decided = asyncio.Event()
        """There is a leader, or this candidate is closed and will not know one."""
        self._cancel_records = store.watch(path, self._on_record)
        self._cancel_session = store.watch_session(self._on_session)
        self._leaving = TaskScope("leave election")

    @property
    def state(self) -> ElectionState:
        return self._state

    @property
    def term(self) -> Term:
        """The term of this candidate's latest leadership; 0 before the first."""
        return self._term

    @property
    def leader_if_known(self) -> bytes | None:
        return self._leader

    async def elect(self, *, timeout_s: float = _DECIDED_S) -> ElectionState:
        """Take part from now on; return once there is a leader, or `close` was called."""
        self._reconciler.request()
        await self._wait(timeout_s)
        return self._state

    async def leader(self, *, timeout_s: float = _DECIDED_S) -> bytes:
        """The leader's proposal; waits for an election under way."""
        await self._wait(timeout_s)
        if self._leader is None:
            raise StoreClosed(f"The candidate for {self._path} is closed")
        return self._leader

    async def close(self) -> None:
        """Stop taking part and give leadership up; callers that wait for the outcome return. A
        record that is not removed for want of the store is removed when the store is back: the
        session may go on for long, and no other candidate is elected meanwhile.
        """
        self._is_closed = True
        self._decided.set()
        self._cancel_records()
        self._reconciler.close()
        async with self._looking:  # what is being written would stand after it was looked for
            pass
        await self._scope.close()
        await self._remove_record()
        self._become(ElectionState.NO_LEADER, None)

    async def _remove_record(self) -> None:
        try:
            record = await self._store.get(self._path)
            if record is not None and self._is_own(record):
                await self._store.delete(self._path, expect=record.stat.version)
        except StoreUnavailable:
            return  # until the session is back, or ends and takes the record with it
        except (RecordNotFound, VersionConflict, StoreClosed):
            pass  # not ours any more, or it ends with its session
        self._cancel_session()

    async def _wait(self, timeout_s: float) -> None:
        try:
            async with self._clock.timeout(timeout_s):
                await self._decided.wait()
        except TimeoutError:
            raise StoreUnavailable(f"Election at {self._path} was not decided in time") from None

    async def _look(self) -> None:
        async with self._looking:
            await self._take_part()

    async def _take_part(self) -> None:
        record = await self._store.get(self._path)
        if self._is_closed:
            return
        try:
            if record is None:
                self._become(ElectionState.NO_LEADER, None)
                await self._store.put(self._path, self._proposal, expect=ABSENT, ephemeral=True)
                await self._begin_leading()
            elif self._is_own(record):
                if self._state is not ElectionState.LEADING:
                    await self._begin_leading()
            elif record.value == self._proposal:
                # Left by a session of ours that has not ended yet; it must not end while we lead.
                await self._store.delete(self._path, expect=record.stat.version)
                self._reconciler.request()
            else:
                self._become(ElectionState.FOLLOWING, record.value)
        except (VersionConflict, RecordNotFound):
            self._reconciler.request()  # another candidate was quicker; look again

    async def _begin_leading(self) -> None:
        if self._is_closed:
            return
        term = await self._store_next_term()
        record = await self._store.get(self._path)
        if record is not None and self._is_own(record):
            self._term = term
            self._become(ElectionState.LEADING, self._proposal)
        else:
            self._reconciler.request()

    async def _store_next_term(self) -> Term:
        path = f"{self._path}-term"
        record = await self._store.get(path)
        if record is None:
            await self._store.put(path, b"1", expect=ABSENT)
            return Term(1)
        try:
            term = Term(int(record.value) + 1)
        except ValueError:
            raise RecordUnreadable(f"{path} does not hold a number: {record.value!r}") from None
        await self._store.put(path, b"%d" % term, expect=record.stat.version)
        return term

    def _is_own(self, record: Record) -> bool:
        return record.stat.created_by_self and record.value == self._proposal

    def _become(self, state: ElectionState, leader: bytes | None) -> None:
        changed = state is not self._state
        self._state, self._leader = state, leader
        if state is ElectionState.NO_LEADER and not self._is_closed:
            self._decided.clear()
        else:
            self._decided.set()
        if changed and self._on_state is not None:
            self._on_state(state)

    def _on_record(self, change: Change) -> None:
        if change.path == self._path and change.kind is not ChangeKind.CHILDREN_CHANGED:
            self._reconciler.request()

    def _on_session(self, event: SessionEvent) -> None:
        if self._is_closed:
            if event is not SessionEvent.CONNECTION_LOST:
                self._leaving.start(self._remove_record(), "remove the record")
            return
        match event:
            case SessionEvent.SESSION_LOST:
                self._become(ElectionState.NO_LEADER, None)
            case SessionEvent.RECONNECTED | SessionEvent.SESSION_REESTABLISHED:
                self._reconciler.request()
            case SessionEvent.CONNECTION_LOST:
                pass  # the session may well live on; terms fence what others do meanwhile
