"""How far a subscription may be set back or ahead so that nothing it has yet to receive is passed
over, and what must be redelivered then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from magnetar.testing.simulation.plan import Reading

Message: TypeAlias = tuple[str, int]
"""Its key, and its number among those of the key."""

_MARGIN_S: Final = 0.002
"""Publish times are whole milliseconds."""


@dataclass(slots=True)
class _View:
    """Of a subscription."""

    held: Counter[str] = field(default_factory=Counter)
    """By reach, of what was received and is neither acknowledged nor refused: an acknowledgement
    may be on its way, and overtake a seek.
    """
    acknowledged: dict[Message, str] = field(default_factory=dict)
    """With the reach."""
    open: int = 0
    """Seeks that began and were not answered: they take effect at any time, or never."""
    recalled: set[Message] = field(default_factory=set)
    due: set[Message] = field(default_factory=set)
    passed_s: float = 0.0
    """Earlier messages may have been passed over, all of them received."""


class Rewinds:
    def __init__(self) -> None:
        self._sent: dict[str, dict[Message, float]] = {}
        self._sending: dict[str, dict[Message, float]] = {}
        self._lag_s: dict[str, float] = {}
        """The most that it took until a message of the topic was stored."""
        self._views: dict[tuple[str, str], _View] = {}
        self.unbounded: set[str] = set()
        """Topics with messages that are not written down when they are sent."""

    def _view(self, topic: str, subscription: str) -> _View:
        return self._views.setdefault((topic, subscription), _View())

    # ------------------------------------------------------------------ what clients do

    def on_sent(self, topic: str, message: Message, at_s: float) -> None:
        self._sent.setdefault(topic, {})[message] = at_s
        self._sending.setdefault(topic, {})[message] = at_s

    def on_answered(self, topic: str, message: Message, at_s: float) -> None:
        sent_s = self._sending.get(topic, {}).pop(message, at_s)
        self._lag_s[topic] = max(self._lag_s.get(topic, 0.0), at_s - sent_s)

    def on_received(self, topic: str, subscription: str, message: Message, id_: str) -> None:
        view, reach = self._view(topic, subscription), _reach_of(subscription, id_)
        view.held[reach] += 1
        view.recalled.discard(message)
        view.due.discard(message)
        if view.open:  # it may have been dispatched before the seek
            view.recalled = {each for each in view.recalled if view.acknowledged[each] != reach}

    def on_acknowledged(self, topic: str, subscription: str, message: Message, id_: str) -> None:
        view, reach = self._view(topic, subscription), _reach_of(subscription, id_)
        view.held[reach] -= 1
        view.acknowledged[message] = reach

    def on_refused(self, topic: str, subscription: str, message: Message, id_: str) -> bool:
        """Whether it is to be redelivered."""
        self._view(topic, subscription).held[_reach_of(subscription, id_)] -= 1
        return self.is_ahead(topic, subscription, message)

    # ------------------------------------------------------------------ seeking

    def find_limit(
        self, topic: str, subscription: str, received: Set[Message], at_s: float
    ) -> float | None:
        """The latest publish time that passes over nothing, if there is one. A seek looks for the
        first entry that is as late, and entries are out of order by as long as it took to store
        them.
        """
        if topic in self.unbounded:
            return None
        missing = (at for message, at in self._sent[topic].items() if message not in received)
        limit_s = min(missing, default=at_s) - self._find_lag(topic, at_s)
        return limit_s if limit_s > 0 else None

    def _find_lag(self, topic: str, at_s: float) -> float:
        sending = self._sending.get(topic, {}).values()
        lag_s = max((self._lag_s.get(topic, 0.0), *(at_s - each for each in sending)))
        return lag_s + _MARGIN_S

    def begin(
        self,
        topic: str,
        subscription: str,
        at_s: float,
        *,
        time_s: float = 0.0,
        only: Message | None = None,
    ) -> None:
        """To a publish time (0: the earliest), or to one message (`only`)."""
        view = self._view(topic, subscription)
        view.open += 1
        view.passed_s = max(view.passed_s, time_s)
        view.due = set()
        sent = self._sent[topic]
        first_s = time_s + self._find_lag(topic, at_s) if time_s else 0.0
        view.recalled = {
            each
            for each in (sent if only is None else (only,))
            if each in view.acknowledged
            and view.held[view.acknowledged[each]] == 0
            and sent.get(each, 0.0) >= first_s
        }

    def end(self, topic: str, subscription: str, *, is_done: bool) -> None:
        """`is_done`: whether all of the subscription has moved."""
        view = self._view(topic, subscription)
        view.open -= 1
        view.due = view.recalled if is_done and not view.open else set()
        view.recalled = set()

    def is_ahead(self, topic: str, subscription: str, message: Message) -> bool:
        """Whether no seek has passed over it."""
        passed_s = self._view(topic, subscription).passed_s
        return self._sent.get(topic, {}).get(message, passed_s) >= passed_s

    def missing(self, topic: str, subscription: str) -> int:
        return len(self._view(topic, subscription).due)


def _reach_of(subscription: str, message_id: str) -> str:
    """What an acknowledgement says something about: a cumulative one about all that its consumer
    received before, in other segments too; else the entry, for one message of a batch goes with
    those of it that were acknowledged before.
    """
    return "" if subscription == Reading.STREAM else message_id.rsplit(":", 2)[0]
