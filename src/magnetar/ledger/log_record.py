"""The record of a log: what its owner has written down, and whether the log is still its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from magnetar.errors import BrokerError, TopicFenced, TopicTerminated, VersionConflict
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import LogRecords, LogState
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.versioned import VersionedRecord
from magnetar.model.position import Position
from magnetar.model.stored_log import LedgerPart, LogInfo
from magnetar.runtime.log import Logger

_logger = Logger(__name__)


class LogRecord:
    """Every write names the version read. An owner that meets another's version stops for good."""

    def __init__(
        self, name: str, records: LogRecords, disposal: Disposal, sequence: LedgerSequence
    ) -> None:
        self.state = LogState.OPEN
        self.properties: Mapping[str, str] = {}
        self.terminated: Position | None = None
        self.is_taken_over = False
        self.is_stale = False
        """Whether it does not say yet what was sealed."""
        self.fenced: list[Callable[[], None]] = []
        """Called when another owner took the log over."""
        self.changing = asyncio.Lock()
        """Held while the list of ledgers changes."""
        self.versioned = VersionedRecord(records.load, records.store, disposal)
        self._stores_begun = 0
        self._store_confirmed = 0  # the last of them that succeeded
        self._name = name
        self._sequence = sequence
        self._rest = b""
        self._owner = ""

    def restore(self, info: LogInfo, version: int) -> None:
        """Take over what was read, or written first."""
        self._sequence.restore(info.ledgers)
        self.properties, self.terminated = dict(info.properties), info.terminated
        self._rest, self._owner = info.rest, info.owner
        if info.terminated is not None:
            self.state = LogState.TERMINATED
        self.versioned.version = version

    # Writing

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        await self.change_properties(lambda _: properties)

    async def change_properties(
        self, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Make the properties of what they are when no other change is under way."""
        async with self.changing:
            self.check_owned()
            properties = change(self.properties)
            await self.store(properties=properties)
            self.properties = dict(properties)

    async def confirm(self) -> None:
        """Write the record as it is: that succeeds for one owner only. Raise TopicFenced for the
        others. Concurrent calls share a write.
        """
        begun = self._stores_begun
        async with self.changing:
            if self.is_taken_over:
                raise TopicFenced(f"{self._name} has another owner")
            if not self.is_confirmed_since(begun):
                await self.store()

    @property
    def stores_begun(self) -> int:
        """How often this owner began to write the record."""
        return self._stores_begun

    def is_confirmed_since(self, stores_begun: int) -> bool:
        """Whether a write has succeeded that began when there had been `stores_begun`: the log had
        no other owner by then.
        """
        return self._store_confirmed > stores_begun

    async def store(
        self,
        *,
        added: LedgerPart | None = None,
        removed: Collection[int] = (),
        terminated: Position | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Write the record as memory has it, with these changes. Raise TopicFenced when it has
        another owner.
        """
        ledgers = [
            part.describe() if part.sealed_ms else LedgerPart(part.ledger_id, 0, 0, 0)
            for part in self._sequence.parts
            if part.ledger_id not in removed
        ]
        info = LogInfo(
            ledgers=(*ledgers, added) if added is not None else tuple(ledgers),
            terminated=self.terminated if terminated is None else terminated,
            properties=dict(self.properties if properties is None else properties),
            rest=self._rest,
            owner=self._owner,
        )
        self._stores_begun += 1
        number = self._stores_begun
        try:
            await self.versioned.store(info)
        except VersionConflict as conflict:
            self.fence()
            raise TopicFenced(f"{self._name} has another owner") from conflict
        self._store_confirmed = max(self._store_confirmed, number)
        self.is_stale = False

    # Owning

    @property
    def is_open(self) -> bool:
        """Whether the log takes appends."""
        return self.state is LogState.OPEN

    def fence(self) -> None:
        """Another owner has the log."""
        self.is_taken_over = True
        if self.state in (LogState.FENCED, LogState.CLOSED):
            return
        _logger.warning("log taken over", log=self._name)
        self.state = LogState.FENCED
        for listener in tuple(self.fenced):
            asyncio.get_running_loop().call_soon(listener)

    def refusal(self) -> BrokerError | None:
        """Why the log takes no appends; None when it does."""
        if self.state is LogState.OPEN:
            return None
        if self.state is LogState.TERMINATED:
            return TopicTerminated(f"{self._name} was terminated")
        return TopicFenced(f"{self._name} is {self.state.value.lower()}")

    def check_open(self) -> None:
        """Raise why the log takes no appends."""
        refusal = self.refusal()
        if refusal is not None:
            raise refusal

    def check_owned(self) -> None:
        """Raise TopicFenced when the log was closed or taken over."""
        if self.state is not LogState.TERMINATED:
            self.check_open()
