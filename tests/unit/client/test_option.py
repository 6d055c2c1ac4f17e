"""What applications may write, and what they are told when they may not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from magnetar.client.choice import check_options
from magnetar.client.error import ConfigurationError
from magnetar.client.option import (
    ConsumerOptions,
    ProducerOptions,
    build_consumer,
    build_producer,
    choose_chunk,
)
from magnetar.client.outgoing import Outgoing, part_by_key
from magnetar.client.pattern import parse_pattern
from magnetar.client.quantity import parse_duration, parse_size
from magnetar.client.schema import Schema
from magnetar.model.name import parse_topic


@pytest.mark.parametrize(
    ("text", "size"), [(7, 7), ("7", 7), ("64MB", 2**26), ("1 KiB", 1024), ("2g", 2**31)]
)
def test_a_size_is_bytes_or_text(text: Any, size: int) -> None:
    assert parse_size("memory_limit", text) == size


@pytest.mark.parametrize("text", ["", "64TB", "-1", -1, 1.5, None, True])
def test_what_is_no_size_is_refused_by_name(text: Any) -> None:
    with pytest.raises(ConfigurationError, match="memory_limit"):
        parse_size("memory_limit", text)


def test_a_duration_is_seconds_or_a_timedelta() -> None:
    assert parse_duration("x", 1) == parse_duration("x", timedelta(seconds=1)) == 1.0


@pytest.mark.parametrize("duration", ["1", None, -1, float("nan"), float("inf"), True])
def test_what_is_no_duration_is_refused_by_name(duration: Any) -> None:
    with pytest.raises(ConfigurationError, match="nack_delay"):
        parse_duration("nack_delay", duration)


def test_an_unknown_keyword_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="subscribe has no keyword 'nam'; did you mean na"):
        check_options("subscribe", {"nam": 1}, ["name", "priority"])
    with pytest.raises(ConfigurationError, match="there are name, priority"):
        check_options("subscribe", {"zzz": 1}, ["priority", "name"])


def test_every_keyword_has_its_place_in_the_settings() -> None:
    producer = build_producer(Schema.BYTES, ProducerOptions(name="n", compression="zstd"))
    assert (producer.name, producer.batching is not None) == ("n", True)
    options = ConsumerOptions(type="shared", nack_delay=timedelta(seconds=2), priority=3)
    consumer = build_consumer("s", Schema.BYTES, options, None)
    assert (consumer.nack_delay, consumer.priority, consumer.type.is_shared) == (2.0, 3, True)


@pytest.mark.parametrize(("chunking", "size"), [(True, None), (False, None), ("1KB", 1024)])
def test_chunking_is_a_switch_or_a_size(chunking: Any, size: int | None) -> None:
    assert choose_chunk(chunking) == size
    with pytest.raises(ConfigurationError, match="above 0"):
        choose_chunk(0)


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("a.*", "persistent://public/default/abc"),
        ("t/n/a.*", "persistent://t/n/abc"),
        ("non-persistent://t/n/[ab]bc", "non-persistent://t/n/abc"),
    ],
)
def test_a_pattern_is_an_expression_over_the_topics_of_a_namespace(
    text: str, matching: str
) -> None:
    pattern = parse_pattern(text, interval=1)
    topic = parse_topic(matching)
    assert (pattern.domain, pattern.namespace) == (topic.domain, topic.namespace)
    assert pattern.local.fullmatch(topic.local) and not pattern.local.fullmatch("xabc")


@pytest.mark.parametrize("text", ["t/.*", "t/.*/x", "topic://t/n/x", "http://t/n/x", "t/n/("])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_pattern(text, interval=1)


def test_batches_by_key_keep_each_key_together_and_sequence_ids_growing() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()

        def message(number: int, key: str | None, ordering: bytes | None = None) -> Outgoing:
            sent = loop.create_future()
            return Outgoing(b"", sent, key, {"ordering_key": ordering}, 0, number)

        keys = ["a", "b", "a", None, "b", "c", None]
        batch = [message(number, key) for number, key in enumerate(keys)]
        batch.append(message(7, "a", b"c"))
        groups = part_by_key(batch)
        assert [[each.sequence_id for each in group] for group in groups] == [
            [0, 2],
            [1, 4],
            [5],
            [3, 6],
            [7],
        ]

    asyncio.run(body())
