"""Topics of a namespace as clients ask for them: filtered by a pattern, hashed, watched."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import re2

from magnetar.broker.attachment import Link
from magnetar.errors import BrokerError, InvalidName, NotAllowed, TooManyRequests
from magnetar.metadata.store import Cancel, Change, ChangeKind, MetadataStore
from magnetar.model.limit import Limits, check_size
from magnetar.model.log_path import LOGS, without_bucket
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    decode_local,
    parse_stored_topic,
)
from magnetar.model.permission import NAMESPACE_READ, Need, Target
from magnetar.rules.system import is_system_topic
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import TaskScope, yield_to_loop
from magnetar.wire.command import CommandWatchTopicUpdate, make_command
from magnetar.wire.topiclist import TopicSet

_SCHEME: Final = re.compile(r"\A(?:persistent|non-persistent|topic|segment)://")
_PATTERN_BYTES_MAX: Final = 1 << 20
_UPDATE_BYTES_MAX: Final = 1 << 20
"""Of names in one update; more of them are sent as several."""


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
        return self._pattern.fullmatch(strip_scheme(parse_stored_topic(full).base.full)) is not None

    def filter(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.matches(name)]


def _merge(into: dict[str, bool], changes: Mapping[str, bool]) -> None:
    """Add changes; those that undo each other vanish."""
    for full, exists in changes.items():
        if into.pop(full, exists) == exists:
            into[full] = exists


class TopicList:
    """The topics of a namespace that match a pattern, shared by all watchers of just these.

    Changes are gathered until `tell`: the list is hashed once then, for all watchers.
    """

    def __init__(self, namespace: NamespaceName, text: str, *, length_max: int) -> None:
        self.namespace = namespace
        self.text = text
        self.topics = TopicSet()
        self.watchers: dict[TopicListWatcher, None] = {}
        self._pattern = TopicPattern(text, length_max=length_max)
        self._is_loaded = False
        self._early: dict[object, dict[str, bool]] = {}
        """What changed during each reading that is under way."""
        self._untold: dict[str, bool] = {}

    async def load(self, reading: Awaitable[Iterable[str]]) -> None:
        """Take what was read, with what changed meanwhile; watchers are sent the difference."""
        mark, early = object(), dict[str, bool]()
        self._early[mark] = early
        try:
            found = set(await reading)
        finally:
            del self._early[mark]
        found.update(full for full, exists in early.items() if exists)
        found.difference_update(full for full, exists in early.items() if not exists)
        topics = TopicSet(self._pattern.filter(found))
        if self._is_loaded:
            before, after = set(self.topics.names), set(topics.names)
            changes = dict.fromkeys(after - before, True) | dict.fromkeys(before - after, False)
            _merge(self._untold, changes)
        self.topics = topics
        self._is_loaded = True
        self.tell()

    def on_change(self, full: str, *, exists: bool) -> bool:
        """Return whether there is something to tell."""
        for early in self._early.values():
            early[full] = exists
        is_known = not self._is_loaded or (full in self.topics) == exists
        if is_known or not self._pattern.matches(full):
            return False
        if exists:
            self.topics.add(full)
        else:
            self.topics.remove(full)
        _merge(self._untold, {full: exists})
        return bool(self._untold)

    def tell(self) -> None:
        changes, self._untold = self._untold, {}
        if changes:
            for watcher in self.watchers:
                watcher.on_changes(changes)


class TopicLists:
    """The lists that are watched: one for each namespace and pattern."""

    def __init__(self, tasks: TaskScope, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._lists: dict[NamespaceName, dict[str, TopicList]] = {}
        self._changed: dict[TopicList, None] = {}
        self._is_telling = False

    def __len__(self) -> int:
        return sum(map(len, self._lists.values()))

    def open(self, namespace: NamespaceName, text: str, *, length_max: int) -> TopicList:
        found = self._lists.get(namespace, {}).get(text)
        if found is None:
            found = TopicList(namespace, text, length_max=length_max)
            self._lists.setdefault(namespace, {})[text] = found
        return found

    def close(self, watched: TopicList) -> None:
        """Forget a list without watchers."""
        lists = self._lists.get(watched.namespace, {})
        if lists.get(watched.text) is watched:
            del lists[watched.text]
            if not lists:
                del self._lists[watched.namespace]
        self._changed.pop(watched, None)

    def follow(self, store: MetadataStore) -> Cancel:
        """Learn of the topics that other brokers make and delete."""
        return store.watch(LOGS, self._on_record)

    def _on_record(self, change: Change) -> None:
        if not self._lists or change.kind not in (ChangeKind.CREATED, ChangeKind.DELETED):
            return
        parts = without_bucket(change.path).removeprefix(f"{LOGS}/").split("/")
        if parts[2:3] != [TopicDomain.PERSISTENT.value] or len(parts) != 4:
            return  # of a segment, or of a cursor
        with suppress(InvalidName):
            name = parse_stored_topic(
                f"persistent://{parts[0]}/{parts[1]}/{decode_local(parts[3])}"
            )
            self.on_change(name, exists=change.kind is ChangeKind.CREATED)

    def on_change(self, name: TopicName, *, exists: bool) -> None:
        if is_system_topic(name):
            return
        for each in self._lists.get(name.namespace, {}).values():
            if each.on_change(name.full, exists=exists):
                self._changed[each] = None
        if self._changed and not self._is_telling:
            self._is_telling = True
            self._tasks.start(self._tell(), name="topic lists")

    async def _tell(self) -> None:
        """One list in a turn of the loop. Pause as long as a round took: what changes meanwhile is
        told together, and however many lists there are, others get half of the time.
        """
        try:
            while self._changed:
                began = self._clock.monotonic()
                changed, self._changed = self._changed, {}
                for each in changed:
                    each.tell()
                    await yield_to_loop()
                await self._clock.sleep(self._clock.monotonic() - began)
        finally:
            self._is_telling = False


class TopicListWatcher:
    """Tells a client which topics of a list came and went, always after the first answer; what it
    does not read yet is merged.
    """

    def __init__(
        self,
        link: Link,
        watcher_id: int,
        watched: TopicList,
        unregister: Callable[[TopicList], None],
    ) -> None:
        self.namespace = watched.namespace
        self.id = watcher_id
        self._link = link
        self._list = watched
        self._is_started = False
        self._waiting: dict[str, bool] = {}
        self._unregister = unregister
        watched.watchers[self] = None

    def start(self) -> TopicSet:
        """From here on changes are pushed."""
        self._is_started = True
        return self._list.topics

    def on_changes(self, changes: Mapping[str, bool]) -> None:
        if self._link.writable and self._is_started and not self._waiting:
            self._send(changes)
        elif self._is_started:
            _merge(self._waiting, changes)

    def on_writable(self) -> None:
        if self._waiting and self._link.writable:
            changes, self._waiting = self._waiting, {}
            self._send(changes)

    def _send(self, changes: Mapping[str, bool]) -> None:
        parts = list(_cut(changes, _UPDATE_BYTES_MAX))
        for number, names in enumerate(parts, start=1):
            # A client has the list that the hash is of only after the last part.
            hashed = self._list.topics.hash if number == len(parts) else ""
            update = CommandWatchTopicUpdate(watcher_id=self.id, topics_hash=hashed)
            update.new_topics.extend(full for full in names if changes[full])
            update.deleted_topics.extend(full for full in names if not changes[full])
            self._link.send_command(make_command(update))

    def close(self) -> None:
        self._list.watchers.pop(self, None)
        if not self._list.watchers:
            self._unregister(self._list)


class TopicListWatchers:
    """The watchers of one connection, by the ids that its client gave them."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._limits = limits
        self._watchers: dict[int, TopicListWatcher] = {}

    def __iter__(self) -> Iterator[TopicListWatcher]:
        return iter(list(self._watchers.values()))

    def __contains__(self, watcher: TopicListWatcher) -> bool:
        return self._watchers.get(watcher.id) is watcher

    def add(self, watcher: TopicListWatcher) -> None:
        """Take the place of one with the same id. Raise TooManyRequests when there are too many."""
        self.remove(watcher.id)
        try:
            check_size(self._limits, "topic_list_watchers", len(self._watchers) + 1)
        except TooManyRequests:
            watcher.close()
            raise
        self._watchers[watcher.id] = watcher

    def remove(self, watcher_id: int) -> None:
        watcher = self._watchers.pop(watcher_id, None)
        if watcher is not None:
            watcher.close()

    def needs(self) -> Iterator[tuple[Need, Target]]:
        for namespace in {watcher.namespace for watcher in self}:
            yield NAMESPACE_READ, Target(namespace=namespace)

    def on_writable(self) -> None:
        for watcher in self:
            watcher.on_writable()

    def close(self) -> None:
        for watcher in self:
            watcher.close()
        self._watchers.clear()


def _cut(names: Iterable[str], bytes_max: int) -> Iterator[list[str]]:
    part, size = list[str](), 0
    for name in names:
        if part and size + len(name) > bytes_max:
            yield part
            part, size = [], 0
        part.append(name)
        size += len(name)
    yield part
