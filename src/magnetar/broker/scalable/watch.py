"""Namespace watch of one client: first all its scalable topics, then what came and went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.attachment import Link
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.errors import BrokerError
from magnetar.metadata.store import Cancel
from magnetar.model.name import NamespaceName, TopicName
from magnetar.rules.scalable_watch import NamespaceWatch, is_known
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import make_command
from magnetar.wire.layout import encode_diff, encode_snapshot
from magnetar.wire.topiclist import hash_topics

_log = Logger(__name__)

_WINDOW_S: Final = 0.05
"""Changes that come within it are sent together."""
_RETRY_S: Final = 1.0


class NamespaceWatcher:
    def __init__(
        self,
        connection: Link,
        watch_id: int,
        namespace: NamespaceName,
        filters: Mapping[str, str],
        records: ScalableRecords,
        *,
        clock: Clock,
        tasks: TaskScope,
    ) -> None:
        self.id = watch_id
        self.namespace = namespace
        self._connection = connection
        self._records = records
        self._clock = clock
        self._tasks = tasks
        self._watch = NamespaceWatch(dict(filters))
        self._changed: dict[TopicName, None] = {}
        """Topics to look at, in the order in which they changed."""
        self._is_started = False
        self._timer: Timer | None = None
        self._is_reading = False
        self._closed = False
        self._cancel: Cancel = records.watch_namespace(namespace, self._on_change)

    async def start(self, current_hash: str | None) -> None:
        """Send all topics, unless the client says that it knows them."""
        topics = await self._records.list(self.namespace, self._watch.filters)
        names = [topic.full for topic in topics]
        self._watch.start(names)
        self._is_started = True
        if not is_known(hash_topics(names), current_hash) and not self._closed:
            self._connection.send_command(make_command(encode_snapshot(self.id, names)))
        if self._changed:
            self._appoint(_WINDOW_S)

    def _on_change(self, topic: TopicName) -> None:
        self._changed[topic] = None
        if self._is_started:
            self._appoint(_WINDOW_S)

    def _appoint(self, delay_s: float) -> None:
        if self._timer is None and not self._is_reading and not self._closed:
            self._timer = self._clock.call_later(delay_s, self._on_window)

    def _on_window(self) -> None:
        self._timer = None
        self._is_reading = True
        self._tasks.start(self._flush(), name="namespace watch")

    async def _flush(self) -> None:
        delay_s = _WINDOW_S
        changed, self._changed = self._changed, {}
        try:
            while changed:
                topic = next(iter(changed))
                record = await self._records.get(topic)
                is_gone = record is None or record.is_deleting
                properties = None if record is None or is_gone else record.properties
                self._watch.change(topic.full, properties)
                del changed[topic]
        except BrokerError as failure:
            _log.warning(
                "namespace not read", namespace=str(self.namespace), reason=failure.sentence
            )
            self._changed = {**changed, **self._changed}
            delay_s = _RETRY_S
        finally:
            self._is_reading = False
        self._tell()
        if self._changed:
            self._appoint(delay_s)

    def on_writable(self) -> None:
        if self._is_started:
            self._tell()

    def _tell(self) -> None:
        """What the client does not read yet is merged."""
        if not self._connection.writable:
            return
        diff = self._watch.flush()
        if diff is not None and not self._closed:
            command = encode_diff(self.id, added=diff.added, removed=diff.removed)
            self._connection.send_command(make_command(command))

    def close(self) -> None:
        self._closed = True
        self._cancel()
        if self._timer is not None:
            self._timer.cancel()
