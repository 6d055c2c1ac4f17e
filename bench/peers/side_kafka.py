"""Kafka by confluent-kafka, the fastest of its Python clients, as its guide has it."""

from __future__ import annotations

import argparse
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from bench.gauge import Watch
from bench.peers.measure import (
    WAIT_S_MAX,
    WARM_REQUESTS,
    Result,
    age_s,
    latencies,
    run,
    stamp,
)

FLUSHED = {"flush.messages": "1"}
"""fsync before a batch is acknowledged; without it the system writes when it likes."""
BATCHED = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}
UNBATCHED = {"linger.ms": 0, "batch.num.messages": 1}
AT_ONCE = {"linger.ms": 0}
PATIENT = {"topic.metadata.propagation.max.ms": 300_000}
"""For topics that the broker has just made; the default of 30 s is too little for 10,000."""
NOT_YET = frozenset(
    (
        "UNKNOWN_TOPIC_OR_PART",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
    )
)
"""What is said of a topic that was made, while the broker does not serve it yet."""
NOT_YET_S = 0.1
READ = 1_000
CREATED_AT_ONCE = 500


class Kafka:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()
        self.failed: object = None

    def measures(self) -> dict[str, Callable[[], Result]]:
        return {
            "produce": self.produce_many,
            "produce-each": lambda: self.produce(BATCHED),
            "produce-unbatched": lambda: self.produce(UNBATCHED),
            "request": self.request,
            "end-to-end": self.end_to_end,
            "consume": self.consume,
            "queue": self.queue,
            "topics": self.topics,
            "create": self.create,
            "first": self.first,
        }

    def producer(self, **settings: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.options.address, "acks": "all"} | settings)

    def consumer(self, group: str) -> Any:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self.options.address, "group.id": group}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        consumer.subscribe([self.options.topic])
        return consumer

    def create(self, names: list[str] | None = None) -> Result:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.options.address})
        config = FLUSHED if self.options.sync else {}
        topics = [NewTopic(name, 1, 1, config=config) for name in names or [self.options.topic]]
        for made in admin.create_topics(topics, request_timeout=WAIT_S_MAX).values():
            made.result(WAIT_S_MAX)
        return {}

    def on_delivery(self, error: object, _message: object) -> None:
        self.failed = self.failed or error

    def produce(self, settings: dict[str, Any]) -> Result:
        payload, count, topic = b"x" * self.options.size, self.options.count, self.options.topic
        self.create()
        producer = self.producer(**settings, on_delivery=self.on_delivery)
        producer.produce(topic, payload)
        producer.flush()
        self.watch.start()
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, payload)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(WAIT_S_MAX) == 0
        result = self.watch.rate(count)
        assert self.failed is None, self.failed
        return result

    def produce_many(self) -> Result:
        """Lists of messages; nothing is heard of each, so they are counted at the end."""
        from confluent_kafka import TopicPartition

        payload, count, topic = b"x" * self.options.size, self.options.count, self.options.topic
        self.create()
        producer = self.producer(**BATCHED)
        producer.produce(topic, payload)
        producer.flush()
        self.watch.start()
        for first in range(0, count, READ):
            messages = [{"value": payload} for _ in range(min(READ, count - first))]
            while (queued := producer.produce_batch(topic, messages)) < len(messages):
                messages = messages[queued:]
                producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(WAIT_S_MAX) == 0
        result = self.watch.rate(count)
        reader = self.consumer("count")
        _, end = reader.get_watermark_offsets(TopicPartition(topic, 0))
        reader.close()
        assert end == count + 1, f"{end} messages are there"
        return result

    def request(self) -> Result:
        payload, took = b"x" * self.options.size, []
        self.create()
        producer = self.producer(**AT_ONCE)
        heard: list[object] = []
        for number in range(WARM_REQUESTS + self.options.count):
            began = time.perf_counter()
            producer.produce(
                self.options.topic, payload, on_delivery=lambda error, _: heard.append(error)
            )
            while len(heard) <= number:
                producer.poll(WAIT_S_MAX)
            if number >= WARM_REQUESTS:
                took.append(time.perf_counter() - began)
        assert not any(heard), heard
        return latencies(took)

    def end_to_end(self) -> Result:
        self.create()
        took: list[float] = []
        consumer = self.consumer(f"group-{uuid.uuid4().hex}")
        producer = self.producer(**AT_ONCE)
        producer.produce(self.options.topic, stamp(self.options.size))
        producer.flush()
        assert consumer.consume(1, WAIT_S_MAX), "nothing came"

        def listen() -> None:
            while len(took) < self.options.count:
                message = consumer.poll(WAIT_S_MAX)
                assert message is not None, f"{len(took)} messages came"
                took.append(age_s(message.value()))

        listener = threading.Thread(target=listen)
        listener.start()
        began = time.perf_counter()
        for number in range(self.options.count):
            due = began + number / self.options.rate
            producer.poll(max(0.0, due - time.perf_counter()))
            while (rest := due - time.perf_counter()) > 0:
                time.sleep(rest)
            producer.produce(self.options.topic, stamp(self.options.size))
        producer.flush()
        listener.join()
        consumer.close()
        return latencies(took)

    def consume(self) -> Result:
        self.produce_many()
        consumer = self.consumer(f"group-{uuid.uuid4().hex}")
        got = seen = 0
        self.watch.start()
        while left := self.options.count + 1 - got:
            batch = consumer.consume(min(READ, left), WAIT_S_MAX)
            assert batch, f"{got} messages came"
            got += len(batch)
            seen += sum(len(message.value()) for message in batch)
        result = self.watch.rate(got)
        assert seen == got * self.options.size
        consumer.close()
        return result

    def queue(self) -> Result:
        """A share group: records are locked for a consumer and accepted one by one."""
        from confluent_kafka import ShareConsumer
        from confluent_kafka.admin import (
            AdminClient,
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
            ResourceType,
        )

        group = f"share-{uuid.uuid4().hex}"
        admin = AdminClient({"bootstrap.servers": self.options.address})
        earliest = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[earliest])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(WAIT_S_MAX)
        self.produce_many()
        settings = {"bootstrap.servers": self.options.address, "group.id": group}
        consumer = ShareConsumer(settings | {"share.acknowledgement.mode": "explicit"})
        consumer.subscribe([self.options.topic])
        got, limit = 0, time.monotonic() + 2 * WAIT_S_MAX
        self.watch.start()
        while got <= self.options.count:
            for message in consumer.poll(5.0):
                assert message.error() is None, message.error()
                consumer.acknowledge(message)
                got += 1
            consumer.commit_async()
            assert time.monotonic() < limit, f"{got} messages came"
        consumer.commit_sync()
        result = self.watch.rate(got)
        consumer.close()
        return result

    def topics(self) -> Result:
        names = [f"{self.options.topic}-{number}" for number in range(self.options.count)]
        producer = self.producer(**PATIENT)
        self.watch.start()
        for first in range(0, len(names), CREATED_AT_ONCE):
            left = names[first : first + CREATED_AT_ONCE]
            self.create(left)
            while left := self.send_each(producer, left):
                time.sleep(NOT_YET_S)  # how long in all is a matter of the runner
        assert self.failed is None, self.failed
        return self.watch.rate(len(names))

    def send_each(self, producer: Any, names: list[str]) -> list[str]:
        """One message to each topic; those that are not served yet."""
        early: list[str] = []

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None and error.name() in NOT_YET:
                early.append(message.topic())
            else:
                self.on_delivery(error, message)

        for name in names:
            producer.produce(name, b"x" * self.options.size, on_delivery=on_delivery)
            producer.poll(0)
        assert producer.flush(2 * WAIT_S_MAX) == 0
        return early

    def first(self) -> Result:
        """The first message, and how many there are."""
        from confluent_kafka import Consumer, TopicPartition

        self.watch.start()
        consumer = Consumer({"bootstrap.servers": self.options.address, "group.id": "first"})
        consumer.assign([TopicPartition(self.options.topic, 0, 0)])
        message = consumer.poll(WAIT_S_MAX)
        assert message is not None and message.error() is None, "nothing came"
        seconds = time.perf_counter() - self.watch.began
        low, high = consumer.get_watermark_offsets(TopicPartition(self.options.topic, 0))
        consumer.close()
        return {"first_s": round(seconds, 3), "messages": high - low}


if __name__ == "__main__":
    run(lambda options: Kafka(options).measures())
