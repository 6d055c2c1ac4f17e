"""Which selector shares the slots of a Key_Shared subscription."""

from __future__ import annotations

from typing import TypeAlias

from magnetar.broker.consumer import Consumer
from magnetar.rules.keyshared import (
    BucketSelector,
    HalvingSelector,
    RingSelector,
    SlotRange,
    StickySelector,
)
from magnetar.runtime.configuration import Configuration
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import sticky_key

ConsumerSelector: TypeAlias = (
    StickySelector[Consumer]
    | RingSelector[Consumer]
    | HalvingSelector[Consumer]
    | BucketSelector[Consumer]
)


def make_selector(
    config: Configuration, *, is_sticky: bool, is_bucketed: bool = False
) -> ConsumerSelector:
    if is_bucketed:
        return BucketSelector()
    if is_sticky:
        return StickySelector()
    if config.subscriptionKeySharedUseConsistentHashing:
        return RingSelector(config.subscriptionKeySharedConsistentHashingReplicaPoints)
    return HalvingSelector()


def rival_in(selector: ConsumerSelector, consumer: Consumer) -> Consumer | None:
    """Who has a range that the consumer asks for; where slots are dealt out nobody has."""
    return selector.conflict(_ranges(consumer)) if isinstance(selector, StickySelector) else None


def add_to(selector: ConsumerSelector, consumer: Consumer) -> ConsumerSelector:
    """Raise ConsumerAssignRefused when there is no room for the consumer."""
    if isinstance(selector, BucketSelector):
        return selector.add(
            consumer, name=consumer.name, ranges=_ranges(consumer), number=consumer.id
        )
    ranges = _ranges(consumer) if isinstance(selector, StickySelector) else ()
    return selector.add(consumer, name=consumer.name, ranges=ranges)


def slot_of(selector: ConsumerSelector, metadata: MessageMetadata) -> int:
    """The slot of an entry: where it was stamped for buckets that counts, else its key does."""
    if isinstance(selector, BucketSelector) and metadata.HasField("entry_hash_min"):
        return selector.slot_at(metadata.entry_hash_min)
    return selector.slot_of(sticky_key(metadata))


def _ranges(consumer: Consumer) -> list[SlotRange]:
    return [SlotRange(*each) for each in consumer.hash_ranges]
