"""What applications may write, and what they are told when they may not."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
from datetime import timedelta
from typing import Any

import pytest

from magnetar import AsyncPulsarClient, Producer, PulsarClient
from magnetar.client.client import ClientOptions
from magnetar.client.error import ConfigurationError
from magnetar.client.keyword import check_known, keywords
from magnetar.client.option import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
    build_consumer,
    build_producer,
    choose_chunk,
)
from magnetar.client.outgoing import Outgoing
from magnetar.client.pattern import parse_pattern
from magnetar.client.quantity import parse_duration, parse_size
from magnetar.client.schema import Schema
from magnetar.client.send_encoder import part_by_key
from magnetar.model.name import parse_topic
from magnetar.runtime.clock import SYSTEM


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
        check_known("subscribe", {"nam": 1}, ["name", "priority"])
    with pytest.raises(ConfigurationError, match="there are name, priority"):
        check_known("subscribe", {"zzz": 1}, ["priority", "name"])


def test_every_keyword_has_its_place_in_the_settings() -> None:
    given = ProducerOptions(name="n", compression="zstd")
    producer, _, _ = build_producer(Schema.BYTES, given, SYSTEM.chance)
    assert (producer.name, producer.batching is not None) == ("n", True)
    options = ConsumerOptions(type="shared", nack_delay=timedelta(seconds=2), priority=3)
    consumer, _, _ = build_consumer("t", "s", Schema.BYTES, options, SYSTEM.chance)
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


URL = "pulsar://127.0.0.1:1"  # nobody is there: everything here is refused before anybody is asked
TOPIC = "topic://public/default/t"


class Trade:
    pass


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operation_timeot": 5}, "did you mean operation_timeout"),
        ({"connection": 5}, "connection is a ConnectionPolicy, not 5"),
        ({"authentication": "secret"}, r"such as TokenAuthentication\(token\), not a str"),
        ({"tls": True}, "tls is a TlsPolicy or an ssl.SSLContext, not True"),
        ({"description": 5}, "description is text"),
        ({"memory_limit": "lots"}, "memory_limit"),
    ],
)
@pytest.mark.parametrize("kind", [AsyncPulsarClient, PulsarClient])
def test_a_client_says_what_its_arguments_are(
    kind: type[Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        kind(URL, **options)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("factory", "options", "sentence"),
    [
        ("producer", {"schema": Trade}, r"Schema\.json\(Trade\)"),
        ("producer", {"batching": 5}, "True, False or a BatchingPolicy, not 5"),
        ("producer", {"max_pending_messages": "5"}, "whole number, not '5'"),
        ("producer", {"max_pending_messages": True}, "whole number, not True"),
        ("producer", {"properties": {"a": 1}}, "text to text, not of 'a' to 1"),
        ("producer", {"properties": [1]}, r"text to text, not \[1\]"),
        ("producer", {"name": 5}, "name is text, not 5"),
        ("producer", {"name": "half \ud800"}, "whole Unicode text"),
        ("producer", {"encryption": "k"}, "ProducerEncryption"),
        ("producer", {"interceptors": 5}, "list of interceptors"),
        ("producer", {"compression": ["zstd"]}, "there are none, lz4"),
        ("queue_consumer", {"receiver_queue_size": "many"}, "whole number"),
        ("queue_consumer", {"dead_letter": 3}, r"DeadLetterPolicy\(max_redeliveries\), not 3"),
        ("queue_consumer", {"nack_backoff": 3}, r"BackoffPolicy\(initial, maximum\), not 3"),
        ("queue_consumer", {"ack_receipts": "yes"}, "True or False"),
        ("stream_consumer", {"schema": "json"}, r"such as Schema\.STRING, not 'json'"),
        ("checkpoint_consumer", {"start": "earliest"}, r"Checkpoint\.EARLIEST"),
        ("checkpoint_consumer", {"group": 5}, "group is text"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_to_write(
    factory: str, options: dict[str, Any], sentence: str
) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(URL) as client:
            has_subscription = factory in ("queue_consumer", "stream_consumer")
            named = {"subscription": "s"} if has_subscription else {}
            with pytest.raises(ConfigurationError, match=sentence):
                getattr(client, factory)(TOPIC, **named, **options)

    asyncio.run(body())


@pytest.mark.parametrize("topic", [None, 5, b"t"])
def test_a_topic_is_text(topic: Any) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(URL) as client:
            for attempt in (
                client.producer,
                client.checkpoint_consumer,
                client.reader,
            ):
                with pytest.raises(ConfigurationError, match="A topic is text such as"):
                    attempt(topic)

    asyncio.run(body())


@pytest.mark.parametrize("client", [AsyncPulsarClient, PulsarClient])
def test_help_shows_every_keyword_with_its_default_and_meaning(client: type[Any]) -> None:
    for described, declared in (
        (client, ClientOptions),
        (client.producer, ProducerOptions),
        (client.stream_consumer, StreamOptions),
        (client.queue_consumer, QueueOptions),
        (client.consumer, ConsumerOptions),
        (client.checkpoint_consumer, CheckpointOptions),
        (client.reader, ReaderOptions),
    ):
        text = pydoc.render_doc(described, renderer=pydoc.plaintext)
        for each in keywords(declared):
            assert f"{each.name} = {each.option.default!r}: {each.option.meaning}" in text
            assert inspect.signature(described).parameters[each.name].default == (
                each.option.default
            )
        if described is not client:
            assert "**options" not in text
    sending = pydoc.render_doc(Producer.send, renderer=pydoc.plaintext)
    assert "key = None: Messages of one key stay in order." in sending
