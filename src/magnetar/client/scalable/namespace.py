"""The scalable topics of a namespace, as they come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from magnetar.client.connection import Connection, Type
from magnetar.client.scalable.watch import Watch
from magnetar.client.session import Session
from magnetar.model.name import NamespaceName
from magnetar.wire.command import (
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
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
