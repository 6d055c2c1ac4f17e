"""Detection of the key hash of v4 producers of a partitioned topic: V5 producers use the same.

They do not say so, but a key that lies on a partition tells. The latest messages of those that are
attached are looked at when a V5 client asks for the layout, and now and then; nothing is done on
the way of a message. What was found is kept as a property of the topic; an operator's word is
another, and counts more.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.guard import is_classic_producer
from magnetar.broker.scalable.key_sample import load_latest_keys
from magnetar.broker.scalable.segment import together
from magnetar.broker.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model.migration import legacy_names
from magnetar.model.name import TopicName
from magnetar.model.segment import scalable_name
from magnetar.model.tenancy import PartitionedTopicMetadata
from magnetar.rules.route import HashEvidence, KeyHash, decide_hash, gather_evidence
from magnetar.runtime.log import Logger

CHOSEN: Final = "magnetar.keyHash"
"""The property by which an operator says which hash it is."""
SEEN: Final = "magnetar.keyHashSeen"
KEY_HASH_PROPERTIES: Final = frozenset((CHOSEN, SEEN))
_PARTITIONS_MAX: Final = 16
"""Of those with v4 producers, so many are looked at."""
_PARTITIONS_ASKED_MAX: Final = 64
"""So many where each may be at another broker."""

_log = Logger(__name__)


def is_mixed(topic: Topic) -> bool:
    """Whether producers of both kinds are on a partition."""
    return topic.name.is_partition and len({is_classic_producer(p) for p in topic.producers}) == 2


class PartitionKeys:
    """Of partitions, by their full names, at the brokers that own them."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics

    def find_classic(self, partition: str) -> tuple[PersistentTopic, frozenset[str]] | None:
        """A partition with v4 producers, and the names of these."""
        topic = self._topics.get(partition)
        if not isinstance(topic, PersistentTopic) or topic.closed:
            return None
        names = frozenset(one.name for one in topic.producers if is_classic_producer(one))
        return (topic, names) if names else None

    async def latest(self, partition: str) -> tuple[str, ...]:
        """Keys of the latest messages of attached v4 producers."""
        found = self.find_classic(partition)
        return () if found is None else tuple(await load_latest_keys(*found))


class KeyHashes:
    def __init__(
        self, partitioned: PartitionedTopics, topics: Mapping[str, Topic], calls: BrokerCalls
    ) -> None:
        """`topics` are the loaded ones, by their full names."""
        self._partitioned = partitioned
        self._calls = calls
        self._here = PartitionKeys(topics)
        calls.offer(PartitionKeys, lambda topic: self._here)

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
        found = await together(
            self._load_keys(index, each) for index, each in self._choose(name, partitions)
        )
        return gather_evidence([place for places in found for place in places], partitions)

    def _choose(self, name: TopicName, partitions: int) -> list[tuple[int, TopicName]]:
        """The partitions to look at: it is not known of another broker's who produces there."""
        all_of_it = enumerate(legacy_names(name, partitions))
        if self._calls.ownership.is_shared:
            return list(islice(all_of_it, _PARTITIONS_ASKED_MAX))
        classic = (each for each in all_of_it if self._here.find_classic(each[1].full))
        return list(islice(classic, _PARTITIONS_MAX))

    async def _load_keys(self, index: int, partition: TopicName) -> list[tuple[str, int]]:
        try:
            keys = await self._calls.ask(
                partition,
                scalable_name(partition),
                PartitionKeys.latest,
                self._here,
                partition.full,
            )
        except BrokerError as failure:
            _log.warning("keys not read", topic=partition.full, reason=failure.sentence)
            return []
        return [(key, index) for key in keys]

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
