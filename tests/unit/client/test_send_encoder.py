"""Batches of segments whose entries are dispatched by bucket."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from magnetar.client.outgoing import MessageOptions, Outgoing
from magnetar.client.policy import BatchingPolicy
from magnetar.client.publication import ProducerSettings
from magnetar.client.send_encoder import SendEncoder, part_batch
from magnetar.rules.route import bucket_hash, bucket_index
from magnetar.wire.entry import decode_metadata

SPLITS = (0x4000, 0x8000, 0xC000)


def messages() -> list[Outgoing]:
    async def make() -> list[Outgoing]:
        loop = asyncio.get_running_loop()
        made = []
        for number in range(200):
            options: MessageOptions = {"ordering_key": b"o"} if number % 50 == 0 else {}
            key = None if number % 40 == 39 else f"k{number % 17}"
            made.append(Outgoing(b"x", loop.create_future(), key, options, 1, number))
        return made

    return asyncio.run(make())


def hash_of(message: Outgoing) -> int:
    key = None if message.key is None else str(message.key).encode()
    return bucket_hash(ordering_key=message.options.get("ordering_key"), key=key)


def test_no_batch_is_of_two_buckets_and_no_key_leaves_its_order() -> None:
    settings = ProducerSettings(bucket_splits=SPLITS)
    groups = part_batch(settings, messages())
    assert len(groups) == 4
    by_key: dict[object, list[int]] = defaultdict(list)
    for group in groups:
        assert len({bucket_index(SPLITS, hash_of(each)) for each in group}) == 1
        for each in group:
            by_key[each.options.get("ordering_key") or each.key].append(each.sequence_id)
    assert all(numbers == sorted(numbers) for numbers in by_key.values() if numbers)
    lasts = [group[-1].sequence_id for group in groups]
    assert lasts == sorted(lasts)


def test_an_entry_is_stamped_with_the_hashes_it_holds() -> None:
    settings = ProducerSettings(bucket_splits=SPLITS)
    encoder = SendEncoder(1, "p", settings, b"", 10**6)
    for group in part_batch(settings, messages()):
        [send] = encoder.encode(group, now_ms=0)
        start = send.frame.index(b"\x0e\x01")
        metadata = decode_metadata(send.frame[start:])
        hashes = [hash_of(each) for each in group]
        assert (metadata.entry_hash_min, metadata.entry_hash_max) == (min(hashes), max(hashes))
        assert metadata.sequence_id == metadata.highest_sequence_id == group[-1].sequence_id


def test_a_segment_of_one_bucket_is_batched_as_it_comes() -> None:
    settings = ProducerSettings()
    whole = messages()
    assert part_batch(settings, whole) == [whole]
    [send] = SendEncoder(1, "p", settings, b"", 10**6).encode(whole, now_ms=0)
    metadata = decode_metadata(send.frame[send.frame.index(b"\x0e\x01") :])
    assert not metadata.HasField("entry_hash_min") and metadata.sequence_id == 0


def test_batches_by_key_are_of_one_bucket_each_already() -> None:
    settings = ProducerSettings(batching=BatchingPolicy(by_key=True), bucket_splits=SPLITS)
    for group in part_batch(settings, messages()):
        assert len({hash_of(each) for each in group}) == 1
