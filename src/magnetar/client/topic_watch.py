"""Hearing from a broker that topics of a namespace came or went, where it offers to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magnetar.client.connection import Connection, Type
from magnetar.client.error import PulsarError
from magnetar.client.pattern import TopicPattern
from magnetar.client.session import Session
from magnetar.runtime.log import Logger
from magnetar.wire.command import CommandWatchTopicList, CommandWatchTopicListClose

_log = Logger(__name__)


class TopicWatch:
    """`on_change` says when it is time to look; an occasional poll beside it misses nothing."""

    def __init__(
        self, session: Session, pattern: TopicPattern, on_change: Callable[[], None]
    ) -> None:
        self._session = session
        self._pattern = pattern
        self._on_change = on_change
        self._id = session.next_watch_id()
        self._connection: Connection | None = None
        self._is_closed = False

    async def ensure(self) -> None:
        """Watch, unless that is done or the broker knows no such thing."""
        if self._connection is not None or self._is_closed:
            return
        try:
            connection = await self._session.pool.get_service()
            if not connection.features.supports_topic_watchers:
                return
            connection.add_listener(Type.WATCH_TOPIC_UPDATE, self._id, self)
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
        self._on_change()

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        if connection is self._connection:
            self._connection = None
            self._on_change()  # what happens until the next watch is found by looking

    def close(self) -> None:
        self._is_closed = True
        connection = self._connection
        self._forget()
        if connection is not None and connection.is_open:
            connection.tell(CommandWatchTopicListClose(watcher_id=self._id))

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.remove_listener(Type.WATCH_TOPIC_UPDATE, self._id)
            self._connection = None
