"""Topics chosen by a regular expression over their names, as they come and go."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from magnetar.client.connection import Connection, Type
from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.client.lookup import Lookup
from magnetar.client.session import Session
from magnetar.client.watch import Watch
from magnetar.errors import InvalidName
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_namespace,
    parse_topic,
)
from magnetar.runtime.log import Logger
from magnetar.wire.command import (
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    KeyValue,
)
from magnetar.wire.topiclist import hash_topics


class NamespaceWatch(Watch):
    """Open it, then read `topics`; `on_change` is called after every later change of them."""

    kind = Type.WATCH_SCALABLE_TOPICS_UPDATE

    def __init__(
        self,
        session: Session,
        namespace: NamespaceName,
        filters: Mapping[str, str],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(session, f"the topics of {namespace}")
        self.topics: frozenset[str] = frozenset()
        self._namespace = namespace
        self._filters = filters
        self._on_change = on_change
        self._is_told = False

    async def _connect(self) -> Connection:
        return await self._session.pool.get_service()

    def _hello(self, id: int, *, is_first: bool) -> CommandWatchScalableTopics:
        body = CommandWatchScalableTopics(
            watch_id=id,
            namespace=str(self._namespace),
            property_filters=[KeyValue(key=k, value=v) for k, v in self._filters.items()],
        )
        if not is_first:
            body.current_hash = hash_topics(self.topics)
        return body

    def goodbye(self, id: int) -> CommandWatchScalableTopicsClose:
        return CommandWatchScalableTopicsClose(watch_id=id)

    def _is_silence_an_answer(self, *, is_first: bool) -> bool:
        return not is_first  # told the hash of what we know, the broker speaks of a change only

    def _on_news(self, body: CommandWatchScalableTopicsUpdate) -> None:
        if body.HasField("diff"):
            topics = (self.topics - set(body.diff.removed)) | set(body.diff.added)
        else:
            topics = frozenset(body.snapshot.topics)
        is_first, self._is_told = not self._is_told, True
        before, self.topics = self.topics, topics
        if topics != before and not is_first:
            self._on_change()


_log = Logger(__name__)

_MODES: Final = {
    TopicDomain.PERSISTENT: "PERSISTENT",
    TopicDomain.NON_PERSISTENT: "NON_PERSISTENT",
}


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All topics of one namespace whose local name matches as a whole."""

    domain: TopicDomain
    namespace: NamespaceName
    local: re.Pattern[str]
    interval: float
    """Seconds between two looks for new topics."""

    async def find(self, lookup: Lookup) -> list[TopicName]:
        """A partitioned topic counts once."""
        names = await lookup.list_topics(self.namespace, mode=_MODES[self.domain])
        found = {parse_topic(name).base: None for name in names}
        return sorted(
            (topic for topic in found if self.local.fullmatch(topic.local)), key=lambda t: t.full
        )


def parse_pattern(text: str, *, interval: float) -> TopicPattern:
    """Read `[domain://]tenant/namespace/expression`, or an expression over public/default."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "persistent", text
    try:
        domain = TopicDomain(scheme)
    except ValueError:
        domain = TopicDomain.TOPIC
    if domain not in _MODES:
        raise ConfigurationError(
            f"A pattern is persistent://… or non-persistent://…, not {scheme}://…;"
            " a consumer with namespace= follows scalable topics"
        )
    parts = rest.split("/", 2)
    if len(parts) == 1:
        parts = ["public", "default", rest]
    if len(parts) != 3:
        raise ConfigurationError(f"Not a pattern: {text!r}; expected tenant/namespace/expression")
    try:
        return TopicPattern(
            domain, parse_namespace("/".join(parts[:2])), re.compile(parts[2]), interval
        )
    except InvalidName as error:
        raise ConfigurationError(
            f"{error.sentence}; only the topic itself may be a pattern"
        ) from None
    except re.error as error:
        raise ConfigurationError(f"Not a regular expression: {parts[2]!r}: {error}") from None


class PatternWatch:
    """Open it, then read `topics`; `on_change` is called after every later change of them.

    It looks now and then, and when a broker says that topics came or went, where it offers to.
    """

    def __init__(
        self, session: Session, pattern: TopicPattern, on_change: Callable[[], None]
    ) -> None:
        self.topics: frozenset[str] = frozenset()
        self._session = session
        self._pattern = pattern
        self._on_change = on_change
        self._id = session.next_watch_id()
        self._connection: Connection | None = None
        self._is_due = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._look()
        self._looking = self._session.scope.start(
            self._follow(), f"topics of {self._pattern.namespace}"
        )

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        connection = self._connection
        self._forget()
        if connection is not None and connection.is_open:
            connection.tell(CommandWatchTopicListClose(watcher_id=self._id))

    async def _follow(self) -> None:
        while True:
            await self._watch()
            try:
                async with self._session.clock.timeout(self._pattern.interval):
                    await self._is_due.wait()
            except TimeoutError:
                pass  # time to look
            self._is_due.clear()
            before = self.topics
            try:
                await self._look()
            except PulsarError as error:
                _log.warning("topics not found", namespace=self._pattern.namespace, reason=error)
            if self.topics != before:
                self._on_change()

    async def _look(self) -> None:
        found = await self._pattern.find(self._session.lookup)
        self.topics = frozenset(topic.full for topic in found)

    async def _watch(self) -> None:
        """Unless that is done or the broker knows no such thing."""
        if self._connection is not None:
            return
        try:
            connection = await self._session.pool.get_service()
            if not connection.features.supports_topic_watchers:
                return
            connection.ends.add_listener(Type.WATCH_TOPIC_UPDATE, self._id, self)
            self._connection = connection
            await connection.request(
                CommandWatchTopicList(
                    watcher_id=self._id,
                    namespace=str(self._pattern.namespace),
                    topics_pattern=f"{self._pattern.domain}://{self._pattern.namespace}/.*",
                ),
                Type.WATCH_TOPIC_LIST_SUCCESS,
                timeout=self._session.operation_timeout,
            )
        except PulsarError as error:
            _log.debug("topics not watched", namespace=self._pattern.namespace, reason=error)
            self._forget()

    def on_push(self, body: Any) -> None:
        self._is_due.set()

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        if connection is self._connection:
            self._connection = None
            self._is_due.set()  # what happens until the next watch is found by looking

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.ends.remove_listener(Type.WATCH_TOPIC_UPDATE, self._id)
            self._connection = None
