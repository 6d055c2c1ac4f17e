"""Topics of a namespace as clients ask for them: filtered by a pattern, hashed, watched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import re2

from magnetar.errors import BrokerError, InvalidName, NotAllowed
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.rules.system import is_system_topic
from magnetar.wire.command import CommandWatchTopicUpdate, make_command
from magnetar.wire.topiclist import hash_topics

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection

_SCHEME: Final = re.compile(r"\A(?:persistent|non-persistent|topic|segment)://")
_PATTERN_BYTES_MAX: Final = 1 << 20


def strip_scheme(text: str) -> str:
    return _SCHEME.sub("", text)


def _make_options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES_MAX
    return options


_LINEAR: Final = _make_options()


def _explain(text: str) -> BrokerError:
    try:
        re.compile(strip_scheme(text))
    except (re.error, OverflowError) as fault:
        return InvalidName(f"Invalid pattern {text!r}: {fault}")
    return NotAllowed(
        f"The pattern {text!r} cannot be matched in bounded time: it looks ahead or back, or"
        " repeats too much"
    )


class TopicPattern:
    """Matches the whole name without its domain and partition suffix.

    The matching takes time in proportion to the name, whatever the pattern: what looks ahead or
    back cannot be matched so, and is refused.
    """

    def __init__(self, text: str, *, length_max: int) -> None:
        if len(text) > length_max:
            raise NotAllowed(f"Pattern longer than maximum: {length_max} characters are allowed")
        try:
            self._pattern = re2.compile(strip_scheme(text), _LINEAR)
        except re2.error:
            raise _explain(text) from None

    def matches(self, full: str) -> bool:
        return self._pattern.fullmatch(strip_scheme(parse_topic(full).base.full)) is not None

    def filter(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.matches(name)]


class TopicListWatcher:
    """Tells a client which topics that match its pattern came and went, always after the first
    answer.
    """

    def __init__(
        self,
        connection: Connection,
        watcher_id: int,
        namespace: NamespaceName,
        pattern: TopicPattern,
        unregister: Callable[[TopicListWatcher], None],
    ) -> None:
        self.namespace = namespace
        self.names: set[str] = set()
        self.is_open = False
        self._early: dict[str, bool] = {}
        self._connection = connection
        self._watcher_id = watcher_id
        self._pattern = pattern
        self._unregister = unregister

    def start(self, names: Iterable[str]) -> list[str]:
        """Take the list, with what changed while it was read; from here on changes are pushed."""
        listed = {*names, *(full for full, exists in self._early.items() if exists)}
        listed -= {full for full, exists in self._early.items() if not exists}
        self.names = set(self._pattern.filter(listed))
        self.is_open = True
        return sorted(self.names)

    def on_change(self, full: str, *, exists: bool) -> None:
        if is_system_topic(parse_topic(full)):
            return
        if not self.is_open:
            self._early[full] = exists
            return
        if not self._pattern.matches(full) or (full in self.names) == exists:
            return
        update = CommandWatchTopicUpdate(watcher_id=self._watcher_id, topics_hash="")
        if exists:
            self.names.add(full)
            update.new_topics.append(full)
        else:
            self.names.discard(full)
            update.deleted_topics.append(full)
        update.topics_hash = hash_topics(self.names)
        self._connection.send_command(make_command(update))

    def close(self) -> None:
        self.is_open = False
        self._unregister(self)
