"""What a client counts and traces, and that it costs nothing unless it is asked for."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest

from magnetar import (
    AsyncPulsarClient,
    Checkpoint,
    InvalidMessageError,
    OpenTelemetry,
    PrometheusTelemetry,
    PulsarClient,
)
from magnetar.testing import MagnetarBroker
from tests.contract.sdk_place import PATIENCE_S, Place, take, until
from tests.contract.sdk_regular import KINDS_OF_TOPIC, open_producer, open_queue, pick_topic


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_what_is_sent_received_and_acknowledged_is_counted(place: Place, kind: str) -> None:
    async def body() -> None:
        telemetry = PrometheusTelemetry()
        topic = pick_topic(place, kind)
        async with place.client(telemetry=telemetry) as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic, batching=False)
            for _ in range(3):
                await producer.send(b"four")
            with pytest.raises(InvalidMessageError):
                await producer.send(b"x" * 6_000_000)
            messages = await take(consumer, 3)
            await consumer.acknowledge(messages[0])
            consumer.negative_acknowledge(messages[1])
        of = {"topic": topic}
        here = {**of, "subscription": "s"}
        registry = CollectorRegistry(auto_describe=True)
        registry.register(telemetry)
        for name, labels, value in (
            ("sent_messages_total", of, 3),
            ("sent_bytes_total", of, 12),
            ("send_failures_total", of, 1),
            ("send_seconds_count", of, 3),
            ("send_seconds_bucket", {**of, "le": "+Inf"}, 3),
            ("received_messages_total", here, 3),
            ("received_bytes_total", here, 12),
            ("acknowledged_total", here, 1),
            ("refused_total", here, 1),
        ):
            assert registry.get_sample_value(f"magnetar_client_{name}", labels) == value, name
        text = telemetry.render()
        assert text == generate_latest(registry).decode()
        assert f'magnetar_client_sent_messages_total{{topic="{topic}"}} 3.0' in text.splitlines()

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_a_producer_and_a_consumer_know_their_own_figures(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic, batching=False)
            for _ in range(5):
                await producer.send(b"four", key="k")
            with pytest.raises(InvalidMessageError):
                await producer.send(b"x" * 6_000_000)
            sent = producer.stats
            assert (sent.sent, sent.failed, sent.pending) == (5, 1, 0)
            assert sent.segments == (0,)
            first = await consumer.receive(PATIENCE_S)
            await until(lambda: consumer.stats.waiting == 4)
            batch = await consumer.receive_many(2, PATIENCE_S)
            await consumer.acknowledge(first)
            consumer.negative_acknowledge(batch[0])
            stats = consumer.stats
            assert (stats.received, stats.waiting) == (1 + len(batch), 4 - len(batch))
            assert (stats.acknowledged, stats.refused) == (1, 1)
            assert stats.segments == {topic: (0,)}

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_a_reader_knows_its_own_figures(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        async with place.client() as client:
            producer = await open_producer(client, topic, batching=False)
            for _ in range(3):
                await producer.send(b"x", key="k")
            if kind == "scalable":
                reader = await client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST)
                read = reader.receive
            else:
                reader = await client.reader(topic, "earliest")
                read = reader.read
            assert await read(PATIENCE_S) is not None
            await until(lambda: reader.stats.waiting == 2)
            stats = reader.stats
            assert (stats.received, stats.acknowledged, stats.refused) == (1, 0, 0)
            assert stats.segments == {topic: (0,)}

    asyncio.run(body())


def test_a_trace_goes_from_the_sender_to_the_receiver(magnetar_broker: MagnetarBroker) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with PulsarClient(magnetar_broker.service_url, telemetry=OpenTelemetry(provider)) as client:
        topic = "persistent://public/default/traced"
        with (
            client.consumer(topic, "s") as consumer,
            client.producer(topic) as producer,
            provider.get_tracer("test").start_as_current_span("work"),
        ):
            id = producer.send(b"x", properties={"mine": "kept"})
            message = consumer.receive(20)
            assert message is not None
            assert message.properties["mine"] == "kept" and "traceparent" in message.properties
            with pytest.raises(InvalidMessageError):
                producer.send(b"x" * 6_000_000)
    sent, received, failed, work = spans.get_finished_spans()
    assert (sent.kind, received.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.attributes is not None and sent.attributes["messaging.message.id"] == str(id)
    assert received.parent is not None and received.parent.span_id == sent.context.span_id
    assert failed.status.status_code is StatusCode.ERROR and work.name == "work"


def test_opentelemetry_counts_what_is_sent_received_and_acknowledged(
    magnetar_broker: MagnetarBroker,
) -> None:
    reader = InMemoryMetricReader()
    telemetry = OpenTelemetry(meter_provider=MeterProvider([reader]))
    topic = "topic://public/default/metered"
    with PulsarClient(magnetar_broker.service_url, telemetry=telemetry) as client:
        consumer = client.queue_consumer(topic, subscription="s")
        producer = client.producer(topic)
        for _ in range(3):
            producer.send(b"x")
        with pytest.raises(InvalidMessageError):
            producer.send(b"x" * 6_000_000)
        batch = [consumer.receive() for _ in range(3)]
        consumer.acknowledge(batch[:2])
        consumer.negative_acknowledge(batch[2])
    data = reader.get_metrics_data()
    assert data is not None
    metered = data.resource_metrics[0].scope_metrics[0].metrics
    figures = {
        (metric.name, point.attributes.get("error.type", "")): getattr(point, "value", None)
        or point.count
        for metric in metered
        for point in metric.data.data_points
        if point.attributes["messaging.destination.name"] == topic
    }
    assert figures == {
        ("messaging.client.sent.messages", ""): 3,
        ("messaging.client.sent.messages", "InvalidMessageError"): 1,
        ("messaging.client.operation.duration", ""): 3,
        ("messaging.client.consumed.messages", ""): 3,
        ("magnetar.client.acknowledged", ""): 2,
        ("magnetar.client.refused", ""): 1,
    }


def test_a_client_without_telemetry_has_nobody_to_tell(magnetar_broker: MagnetarBroker) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            producer = await client.producer("persistent://public/default/quiet")
            assert producer._settings.interceptors == ()

    asyncio.run(body())
