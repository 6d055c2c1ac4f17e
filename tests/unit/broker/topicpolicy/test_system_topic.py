"""Topic policies in `__change_events`: who reads it, who else writes it, what when it is ill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import LedgerCorrupt, PoliciesUnavailable, RecordUnreadable
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import Policies, RetentionPolicies, TopicPolicies
from magnetar.model.position import EARLIEST
from magnetar.rules.system import CHANGE_EVENTS, change_events_of
from magnetar.wire.batch import encode_batch
from magnetar.wire.command import (
    BaseCommand,
    CommandGetOrCreateSchema,
    CommandProducer,
    CommandSubscribe,
    MessageMetadata,
    Schema,
    SingleMessageMetadata,
)
from magnetar.wire.entry import decode_entry, encode_entry
from magnetar.wire.policy_event import EVENT_SCHEMA, decode_event, encode_event, encode_event_key
from tests.contract.policy_place import NAMESPACE, OTHER, TOPIC, Ear, Shop, eventually, run
from tests.hostile.test_permission_matrix import Peer, code_of

EVENTS = change_events_of(NAMESPACE)


async def log_of(shop: Shop, name: TopicName = EVENTS) -> PersistentTopic:
    live = await shop.service.catalog.load_topic(name)
    assert isinstance(live, PersistentTopic)
    return live


async def entries_of(shop: Shop, *, compacted: bool = False) -> list[bytes]:
    source = (await log_of(shop)).source(read_compacted=compacted)
    found, position = [], EARLIEST
    while (part := await source.read(position, 100, 1 << 20)) is not None:
        found += part.data
        position = part.next_position
    return found


async def append(shop: Shop, payload: bytes, **fields: object) -> None:
    """As somebody else's producer would."""
    told = {"producer_name": "other", "sequence_id": 0, "publish_time": 1}
    entry = encode_entry(MessageMetadata(**{**told, **fields}), payload)  # type: ignore[arg-type]
    await (await log_of(shop)).log.append_entry(entry)


def test_nothing_is_made_before_the_first_policy(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.catalog.load_topic(TOPIC, create=True)
        assert await shop.ttl() is None
        await shop.backend.delete(TOPIC)
        assert not await shop.service.catalog.topic_exists(EVENTS)
        assert not shop.system.logs
        await shop.set(messageTTLInSeconds=1)
        assert await shop.service.catalog.topic_exists(EVENTS)

    run(body, tmp_path)


def test_a_namespace_has_one_reader_that_its_topics_share(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        names = [f"persistent://shop/{space}/t{n}" for space in ("a", "b", "c") for n in (1, 2)]
        for space in "abc":
            await shop.service.resources.namespaces.create(NamespaceName("shop", space), Policies())
        topics = [parse_topic(name) for name in names]
        await asyncio.gather(
            *(
                shop.set(topic=topic, messageTTLInSeconds=number)
                for number in range(1, 6)
                for topic in topics
            )
        )
        await shop.restart()
        assert not shop.system.logs
        assert await asyncio.gather(*(shop.ttl(topic=topic) for topic in topics)) == [5] * 6
        assert len(shop.system.logs) == 3

    run(body, tmp_path)


def test_events_are_written_as_pulsar_writes_them(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        await shop.set(messageTTLInSeconds=2, is_global=True)
        await shop.backend.delete(TOPIC, keep_global=True)
        found = [decode_entry(entry) for entry in await entries_of(shop)]
        assert [metadata.partition_key for metadata, _ in found] == [
            TOPIC.full,
            f"__G__{TOPIC.full}",
            TOPIC.full,
        ]
        assert [list(metadata.replicate_to) for metadata, _ in found] == [
            ["standalone"],
            [],
            ["standalone"],
        ]
        assert [metadata.null_value for metadata, _ in found] == [False, False, True]
        assert [metadata.schema_version for metadata, _ in found] == [bytes(8)] * 3
        event = decode_event(TOPIC.full, found[0][1], EVENT_SCHEMA.definition)
        assert event is not None
        assert event.policies == TopicPolicies(messageTTLInSeconds=1)
        stored = await shop.service.schemas.get_latest(EVENTS)
        assert stored is not None
        assert stored.schema.definition == EVENT_SCHEMA.definition

    run(body, tmp_path)


def test_what_others_write_is_in_force_too(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        ear = await Ear.at(shop, OTHER)
        value = encode_event(OTHER, TopicPolicies(messageTTLInSeconds=9), cluster="x")
        await append(shop, value, partition_key=OTHER.full)
        await eventually(lambda: ear.heard == [9])
        shared = TopicPolicies(messageTTLInSeconds=8, isGlobal=True)
        singles = [
            (
                SingleMessageMetadata(partition_key=encode_event_key(OTHER, is_global=True)),
                encode_event(OTHER, shared, cluster="x"),
            ),
            (SingleMessageMetadata(partition_key=OTHER.full, null_value=True), b""),
        ]
        await append(shop, encode_batch(singles), num_messages_in_batch=2)
        await eventually(lambda: ear.heard[-1] == 8)
        assert await shop.ttl(topic=OTHER) is None
        assert await shop.ttl(topic=OTHER, is_global=True) == 8

    run(body, tmp_path)


def test_what_was_compacted_says_the_same_in_fewer_words(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        for number in range(1, 6):
            await shop.set(messageTTLInSeconds=number)
            await shop.set(messageTTLInSeconds=10 * number, is_global=True)
            await shop.set(topic=OTHER, messageTTLInSeconds=number)
        await shop.backend.delete(OTHER)
        live = await log_of(shop)
        await live.compactor.start()
        await eventually(lambda: live.compactor.status()["status"] == "SUCCESS")
        assert len(await entries_of(shop, compacted=True)) == 2
        await shop.set(topic=OTHER, messageTTLInSeconds=7)
        await shop.restart()
        assert (await shop.ttl(), await shop.ttl(is_global=True)) == (5, 50)
        assert await shop.ttl(topic=OTHER) == 7

    run(body, tmp_path)


def test_the_log_is_kept_until_it_is_compacted(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        live = await log_of(shop)
        await live.log.roll()
        await live.log.trim()
        assert live.policy.compaction_threshold > 0
        assert not live.policy.inactive_topic.deleteWhileInactive
        await shop.restart()
        assert await shop.ttl() == 1

    run(body, tmp_path, retentionCheckIntervalInSeconds=1)


def test_the_reader_follows_a_log_that_was_unloaded(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        ear = await Ear.at(shop)
        for number in (2, 3):
            await shop.service.catalog.unload_topic(EVENTS)
            await shop.set(messageTTLInSeconds=number)
        await shop.service.catalog.unload_topic(EVENTS)
        value = encode_event(TOPIC, TopicPolicies(messageTTLInSeconds=4), cluster="x")
        await append(shop, value, partition_key=TOPIC.full)
        await eventually(lambda: ear.heard == [2, 3, 4])
        assert len(shop.system.logs) == 1

    run(body, tmp_path)


def test_a_deleted_log_takes_the_policies_along(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.set(messageTTLInSeconds=1)
        await shop.service.policies.in_force.catch_up()
        assert topic.policy.message_ttl_s == 1
        await shop.service.catalog.delete_topic(EVENTS, force=True)
        await eventually(lambda: topic.policy.message_ttl_s == 0)
        assert await shop.ttl() is None
        await shop.set(messageTTLInSeconds=2)
        await shop.service.policies.in_force.catch_up()
        assert topic.policy.message_ttl_s == 2

    run(body, tmp_path)


def test_a_partitioned_log_is_read_and_written_in_all_its_partitions(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.resources.partitioned.create(EVENTS, 3)
        topics = [parse_topic(f"persistent://shop/eu/t{number}") for number in range(12)]
        for number, topic in enumerate(topics):
            await shop.set(topic=topic, messageTTLInSeconds=number + 1)
            # The first event, whichever partition it is in, makes the one that is looked for.
            assert await shop.service.catalog.topic_exists(EVENTS.partition(0))
        counts = [
            (await log_of(shop, EVENTS.partition(index))).log.sequence.total_entries
            for index in range(3)
        ]
        assert sum(counts) == 12
        assert min(counts) > 0
        await shop.restart()
        found = [await shop.ttl(topic=topic) for topic in topics]
        assert found == list(range(1, 13))

    run(body, tmp_path)


def test_a_namespace_that_goes_is_asked_for_nothing(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        await shop.restart()
        await shop.service.resources.namespaces.update(
            NAMESPACE, lambda each: replace(each, deleted=True)
        )
        await shop.backend.delete(TOPIC)
        assert await shop.ttl() is None
        assert not shop.system.logs

    run(body, tmp_path)


def test_of_namespaces_without_loaded_topics_only_the_last_ones_are_read(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        spaces = [NamespaceName("shop", f"n{number}") for number in range(110)]
        topics = [parse_topic(f"persistent://{space}/x") for space in spaces]
        for space, topic in zip(spaces, topics, strict=True):
            await shop.service.resources.namespaces.create(space, Policies())
            await shop.set(topic=topic, messageTTLInSeconds=7)
        assert len(shop.system.logs) <= 101
        assert spaces[-1] in shop.system.logs
        kept = topics[0]
        await shop.service.catalog.load_topic(kept, create=True)
        for topic in topics:
            assert await shop.ttl(topic=topic) == 7
        assert kept.namespace in shop.system.logs, "it has a topic that listens"
        assert len(shop.system.logs) <= 102
        await shop.service.catalog.unload_topic(kept)
        assert kept.namespace not in shop.service.policies.in_force.namespaces_in_use()

    run(body, tmp_path)


# ---------------------------------------------------------------------- a log that is ill


def test_a_log_that_gives_no_answer_refuses_policy_calls_and_loads_topics(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.set(
            messageTTLInSeconds=7,
            retentionPolicies=RetentionPolicies(retentionTimeInMinutes=60, retentionSizeInMB=60),
        )
        await shop.restart()
        await shop.service.resources.namespaces.update(
            NAMESPACE,
            lambda each: replace(each, max_producers_per_topic=3, message_ttl_in_seconds=5),
        )
        shop.ledgers.hold_reads()
        with pytest.raises(PoliciesUnavailable, match="persistent://shop/eu/__change_events"):
            await shop.ttl()
        with pytest.raises(PoliciesUnavailable):
            await shop.set(messageTTLInSeconds=9)
        topic = await shop.service.catalog.load_topic(TOPIC)
        # The namespace's word holds, but nothing is taken away that the topic might keep.
        assert topic.policy.max_producers == 3
        assert (topic.policy.message_ttl_s, topic.policy.retention_ms) == (0, -1)
        shop.ledgers.release_reads()
        await eventually(lambda: topic.policy.message_ttl_s == 7)
        assert topic.policy.retention_ms == 3_600_000
        assert topic.policy.max_producers == 3
        assert await shop.ttl() == 7

    run(body, tmp_path, topicPoliciesCacheInitTimeoutSeconds=1)


def test_a_partition_without_its_policies_gets_them_when_another_one_finds_them(
    tmp_path: Path,
) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.resources.partitioned.create(TOPIC, 2)
        await shop.set(messageTTLInSeconds=7)
        await shop.restart()
        shop.ledgers.hold_reads()
        first = await shop.service.catalog.load_topic(TOPIC.partition(0), create=True)
        assert first.policy.message_ttl_s == 0
        shop.ledgers.release_reads()
        second = await shop.service.catalog.load_topic(TOPIC.partition(1), create=True)
        await eventually(lambda: first.policy.message_ttl_s == second.policy.message_ttl_s == 7)

    run(body, tmp_path, topicPoliciesCacheInitTimeoutSeconds=1)


async def answer_of(peer: Peer, body: object) -> BaseCommand:
    """What comes back for the request, however long it takes."""
    before = len(peer.wire.received)
    peer.say(body)
    async with asyncio.timeout(60):
        while len(peer.wire.received) == before:
            await asyncio.sleep(0.01)
    return peer.wire.received[before]


def test_nothing_is_written_to_a_topic_before_its_policies_are_known(tmp_path: Path) -> None:
    """Its deduplication, its schema enforcement and its size limit would not hold."""

    async def body(shop: Shop) -> None:
        await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.set(deduplicationEnabled=True, maxMessageSize=100, schemaValidationEnforced=True)
        await shop.restart()
        shop.ledgers.hold_reads()
        peer = Peer(shop, None)
        await asyncio.sleep(0)
        producer = CommandProducer(topic=TOPIC.full, producer_id=1, request_id=1)
        assert code_of(await answer_of(peer, producer)) == "ServiceNotReady"
        schema = CommandGetOrCreateSchema(
            topic=TOPIC.full,
            request_id=2,
            schema=Schema(name="s", type=Schema.String, schema_data=b""),
        )
        assert code_of(await answer_of(peer, schema)) == "ServiceNotReady"
        # What is there can be read meanwhile.
        consumer = CommandSubscribe(
            topic=TOPIC.full,
            subscription="s",
            subType=CommandSubscribe.Shared,
            consumer_id=1,
            request_id=3,
        )
        assert code_of(await answer_of(peer, consumer)) is None
        shop.ledgers.release_reads()
        async with asyncio.timeout(60):
            while code_of(await answer_of(peer, producer)) == "ServiceNotReady":
                await asyncio.sleep(0.05)
        topic = await log_of(shop, TOPIC)
        assert topic.dedup is not None, "before the first producer was let in"
        assert topic.policy.max_message_size == 100
        assert len(topic.producers) == 1
        peer.wire.close()

    run(body, tmp_path, topicPoliciesCacheInitTimeoutSeconds=1)


def test_a_subscription_called_like_the_system_topic_is_not_taken_for_it(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        topic = await log_of(shop, (await shop.service.catalog.load_topic(TOPIC, create=True)).name)
        await shop.set(messageTTLInSeconds=7)
        assert await shop.ttl() == 7
        readers = shop.system.logs.copy()
        for name in (CHANGE_EVENTS, f"{CHANGE_EVENTS}-partition-0"):
            await topic.subscriptions.create(name)
            await topic.subscriptions.delete(name)
        await asyncio.sleep(0)
        assert shop.system.logs == readers, "the reader of the namespace was not restarted"
        assert await shop.ttl() == 7

    run(body, tmp_path)


def test_a_topic_that_was_known_loads_with_what_was_known(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.service.policies.update(TOPIC, lambda each: replace(each, maxConsumerPerTopic=4))
        await shop.service.catalog.unload_topic(TOPIC)
        shop.system.forget(NAMESPACE)
        shop.ledgers.fail_reads(LedgerCorrupt("a record does not match its checksum"))
        await shop.service.catalog.unload_topic(EVENTS)
        topic = await shop.service.catalog.load_topic(TOPIC)
        assert topic.policy.max_consumers == 4

    run(body, tmp_path)


def test_a_damaged_log_is_named_and_keeps_no_topic_from_loading(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=7)
        await shop.restart()
        shop.ledgers.fail_reads(LedgerCorrupt("a record does not match its checksum"))
        for _ in range(2):
            with pytest.raises(RecordUnreadable, match="__change_events is damaged"):
                await shop.ttl()
        await shop.service.catalog.load_topic(OTHER, create=True)
        shop.ledgers.fail_reads(None)
        assert await shop.ttl() == 7

    run(body, tmp_path)


def test_an_event_that_cannot_be_read_concerns_its_topic_only(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.service.catalog.load_topic(TOPIC, create=True)
        await shop.set(messageTTLInSeconds=7)
        await shop.set(topic=OTHER, messageTTLInSeconds=8)
        await append(shop, b"\xff" * 30, partition_key=TOPIC.full)
        await append(shop, b"nonsense without a key")
        await append(shop, b"x", partition_key="magic://no/such/domain")
        await (await log_of(shop)).log.append_entry(b"not even an entry")
        for _ in range(2):
            assert await shop.ttl(topic=OTHER) == 8
            with pytest.raises(RecordUnreadable, match=r"__change_events at \d+:\d+"):
                await shop.ttl()
            await shop.service.catalog.load_topic(TOPIC)
            await shop.restart()
        await shop.backend.delete(TOPIC)
        assert await shop.ttl() is None

    run(body, tmp_path)


def test_a_write_that_hangs_is_refused_in_time(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        shop.ledgers.hold_creates()
        with pytest.raises(PoliciesUnavailable, match="did not take the change within 1 s"):
            await shop.set(messageTTLInSeconds=1)
        shop.ledgers.release_creates()
        await shop.set(messageTTLInSeconds=2)
        assert await shop.ttl() == 2

    run(body, tmp_path, topicPoliciesCacheInitTimeoutSeconds=1)


def test_a_write_that_fails_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        await shop.set(messageTTLInSeconds=1)
        shop.ledgers.fail_next(LedgerCorrupt("the disk is ill"))
        with pytest.raises(LedgerCorrupt):
            await shop.set(messageTTLInSeconds=2)
        assert await shop.ttl() == 1
        await shop.set(messageTTLInSeconds=3)
        assert await shop.ttl() == 3

    run(body, tmp_path)
