"""Detection of the key hash of v4 producers of a partitioned topic: V5 producers use the same.

They do not say so, but a key that lies on a partition tells. The latest messages of those that are
attached are looked at when a V5 client asks for the layout, and now and then; nothing is done on
the way of a message. What was found is kept as a property of the topic; an operator's word is
another, and counts more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.guard import is_classic_producer
from magnetar.broker.scalable.key_sample import load_latest_keys
from magnetar.broker.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model.migration import legacy_names
from magnetar.model.name import TopicName
from magnetar.model.tenancy import PartitionedTopicMetadata
from magnetar.rules.route import HashEvidence, KeyHash, decide_hash, gather_evidence
from magnetar.runtime.log import Logger

CHOSEN: Final = "magnetar.keyHash"
"""The property by which an operator says which hash it is."""
SEEN: Final = "magnetar.keyHashSeen"
KEY_HASH_PROPERTIES: Final = frozenset((CHOSEN, SEEN))
_PARTITIONS_MAX: Final = 16
"""Of those with v4 producers, so many are looked at."""

_log = Logger(__name__)


def is_mixed(topic: Topic) -> bool:
    """Whether producers of both kinds are on a partition."""
    return topic.name.is_partition and len({is_classic_producer(p) for p in topic.producers}) == 2


class KeyHashes:
    def __init__(self, partitioned: PartitionedTopics, topics: Mapping[str, Topic]) -> None:
        self._partitioned = partitioned
        self._topics = topics
        """The loaded ones, by their full names."""

    async def find(self, name: TopicName, *, again: bool = False) -> KeyHash | None:
        """The hash that V5 producers are to use; None when any will do. One that was found before
        is looked for once more when that is asked for.
        """
        stored = await self._partitioned.get(name)
        if stored is None:
            return None
        known = stored.properties or {}
        if (chosen := _parse(known.get(CHOSEN))) is not None:
            return chosen
        before = _parse(known.get(SEEN))
        if before is not None and not again:
            return before
        found = decide_hash(await self.load_evidence(name, stored.partitions), before)
        if found is not None and found is not before:
            await self._remember(name, found)
        return found

    async def load_evidence(self, name: TopicName, partitions: int) -> HashEvidence:
        """Where the keys of attached v4 producers lie."""
        places: list[tuple[str, int]] = []
        for index, topic, names in self._find_classic(name, partitions):
            try:
                places += [(key, index) for key in await load_latest_keys(topic, names)]
            except BrokerError as failure:
                _log.warning("keys not read", topic=topic.name.full, reason=failure.sentence)
        return gather_evidence(places, partitions)

    def _find_classic(
        self, name: TopicName, partitions: int
    ) -> Iterator[tuple[int, PersistentTopic, frozenset[str]]]:
        """Partitions with v4 producers, and the names of these."""
        left = _PARTITIONS_MAX
        for index, each in enumerate(legacy_names(name, partitions)):
            topic = self._topics.get(each.full)
            if not isinstance(topic, PersistentTopic) or topic.closed:
                continue
            names = frozenset(one.name for one in topic.producers if is_classic_producer(one))
            if names:
                yield index, topic, names
                left -= 1
            if not left:
                return

    async def _remember(self, name: TopicName, found: KeyHash) -> None:
        def change(stored: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
            return replace(stored, properties={**(stored.properties or {}), SEEN: found.value})

        try:
            await self._partitioned.update(name, change)
        except BrokerError as failure:  # the next caller finds it again
            _log.warning("key hash not stored", topic=name.full, reason=failure.sentence)
        else:
            _log.info("v4 producers place keys", topic=name.full, hash=found.value)


def _parse(text: str | None) -> KeyHash | None:
    return KeyHash(text) if text in frozenset(KeyHash) else None
