"""What peers were sent and do not read: bounded for each connection and for all together."""

from __future__ import annotations

from typing import Protocol

from magnetar.model.limit import Limits
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class Reader(Protocol):
    """A connection whose peer does not read for now."""

    address: str

    @property
    def unread_bytes(self) -> int: ...

    def abort(self) -> None: ...


class UnreadBytes:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slow: dict[Reader, int] = {}
        """How much waited for each when it was last written to, slowest first."""
        self._total = 0

    def check(self, connection: Reader) -> None:
        """Close a connection that has too much to read, or the slowest ones when all have.

        A message is no answer: whatever the size of one, it does not count.
        """
        most = self._limits.unread_answer_bytes
        if connection.unread_bytes > most + self._limits.message_bytes:
            self._close(connection, most)
        else:
            self.check_total(connection)

    def check_total(self, connection: Reader) -> None:
        """The same for one that has a single answer, of whatever size."""
        size = connection.unread_bytes
        self._total += size - self._slow.get(connection, 0)
        self._slow[connection] = size
        most = self._limits.unread_answer_total_bytes
        if self._total <= most:
            return
        self._slow = {each: each.unread_bytes for each in self._slow}
        self._total = sum(self._slow.values())
        while self._total > most:
            self._close(next(iter(self._slow)), most)

    def forget(self, connection: Reader) -> None:
        """Its peer reads again, or is gone."""
        self._total -= self._slow.pop(connection, 0)

    def _close(self, connection: Reader, most: int) -> None:
        self.forget(connection)
        _log.warning(
            "connection closed",
            address=connection.address,
            reason=f"the peer does not read: {connection.unread_bytes} bytes wait; at most {most}"
            " may",
        )
        connection.abort()
