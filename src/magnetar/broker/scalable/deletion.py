"""Tombstones of scalable topics that were deleted a moment ago."""

from __future__ import annotations

from typing import Final

from magnetar.model.name import TopicName
from magnetar.runtime.clock import Clock

_RECENT_S: Final = 60.0
"""Longer than clients of the first release wait between two tries to get a layout back."""
_REMEMBERED_MAX: Final = 10_000


class Deletions:
    """A client that learns of a deletion, or reconnects after it, may look the topic up once more,
    and must not make it again by that.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[TopicName, float] = {}

    def on_deleted(self, topic: TopicName) -> None:
        self._times.pop(topic, None)
        if len(self._times) >= _REMEMBERED_MAX:
            del self._times[next(iter(self._times))]
        self._times[topic] = self._clock.monotonic()

    def is_recent(self, topic: TopicName) -> bool:
        time = self._times.get(topic)
        return time is not None and self._clock.monotonic() - time < _RECENT_S
