"""Clients of regular topics that were refused because the topic is scalable: counted for the
metrics, and named in the log for operators who look for clients to upgrade.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from magnetar.model.caller import Caller
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_LOG_INTERVAL_S: Final = 60.0
_REMEMBERED_MAX: Final = 1000
_VERSION_CHARS_MAX: Final = 100

_log = Logger(__name__)


class EntryPoint(StrEnum):
    LOOKUP = "lookup"
    PARTITIONS = "partitions"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    REST = "rest"


class LegacyRefusals:
    """One line per client and topic within a minute; a client is a host, a version and a role."""

    def __init__(self, clock: Clock) -> None:
        self.counts: dict[EntryPoint, int] = dict.fromkeys(EntryPoint, 0)
        self._clock = clock
        self._logged: dict[tuple[str, ...], float] = {}

    def on_refused(
        self,
        entry: EntryPoint,
        sentence: str,
        *,
        topic: str,
        address: str,
        version: str,
        caller: Caller,
    ) -> None:
        self.counts[entry] += 1
        now, version = self._clock.monotonic(), version[:_VERSION_CHARS_MAX]
        role = caller.original_role or caller.role or ""
        client = (address.rpartition(":")[0], version, role, topic)
        last = self._logged.get(client)
        if last is not None and now - last < _LOG_INTERVAL_S:
            return
        self._logged.pop(client, None)
        if len(self._logged) >= _REMEMBERED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[client] = now
        _log.warning(
            "client without scalable topics refused",
            door=entry,
            topic=topic,
            address=address,
            version=version,
            role=role,
            reason=sentence,
        )
