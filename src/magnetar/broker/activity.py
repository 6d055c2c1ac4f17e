"""Whether anything has changed in a namespace that a query over its topics could see.

Each namespace has a count that grows with every batch of entries that became durable, with every
change of its list of topics and of a layout. A query that saw everything up to a count need not
look again while the count stays.
"""

from __future__ import annotations

from typing import Final

from magnetar.metadata.store import Cancel, Change, ChangeKind, MetadataStore
from magnetar.model.log_path import LOGS, without_bucket
from magnetar.model.name import NamespaceName, TopicDomain
from magnetar.model.scalable import TOPICS, parse_topic_path

_LISTS: Final = (LOGS, "/admin/partitioned-topics")


class ChangeCount:
    """Of one namespace; topics keep it and add to it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Activity:
    def __init__(self) -> None:
        self._counts: dict[NamespaceName, ChangeCount] = {}

    def of(self, namespace: NamespaceName) -> ChangeCount:
        found = self._counts.get(namespace)
        if found is None:
            found = self._counts[namespace] = ChangeCount()
        return found

    def follow(self, store: MetadataStore) -> Cancel:
        """Count changes of lists and layouts as the store reports them."""
        cancels = [store.watch(root, self._on_listed) for root in _LISTS]
        cancels.append(store.watch(TOPICS, self._on_layout))

        def cancel() -> None:
            for each in cancels:
                each()

        return cancel

    def _on_listed(self, change: Change) -> None:
        """A topic came or went; what stands below its node are cursors."""
        if change.kind not in (ChangeKind.CREATED, ChangeKind.DELETED):
            return
        root = next(each for each in _LISTS if change.path.startswith(each))
        parts = without_bucket(change.path).removeprefix(root).split("/")[1:]
        if len(parts) == (5 if TopicDomain.SEGMENT.value in parts[2:3] else 4):
            self._add(NamespaceName(parts[0], parts[1]))

    def _on_layout(self, change: Change) -> None:
        topic = parse_topic_path(change.path)
        if topic is not None:  # what stands below a topic's record changes by itself
            self._add(topic.namespace)

    def _add(self, namespace: NamespaceName) -> None:
        found = self._counts.get(namespace)
        if found is not None:
            found.count += 1
