"""What every topic is to the connection, the admin side and the upkeep."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from magnetar.broker.admission import Admission
from magnetar.broker.consumer import Consumer
from magnetar.broker.consumer_group import ConsumerGroup
from magnetar.broker.dedup import Deduplicator
from magnetar.broker.entry import is_encrypted
from magnetar.broker.producer import Producer
from magnetar.broker.producer_set import ProducerSet
from magnetar.broker.throttle import PublishThrottle
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import (
    BrokerError,
    ChecksumMismatch,
    ConsumerBusy,
    NotAllowed,
    ProducerBusy,
    ResourceBusy,
    TopicFenced,
)
from magnetar.ledger.log import Log
from magnetar.model.name import TopicName
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandSubscribe
from magnetar.wire.run import SendRun


class Topic(ABC):
    def __init__(self, host: TopicHost, name: TopicName, policy: EffectivePolicy) -> None:
        now = host.clock.monotonic()
        self.host: Final = host
        self.name: Final = name
        self.policy = policy
        self.created_ms: Final = host.clock.now_ms()
        self.last_active_ms = self.created_ms
        self.last_publish_ms = 0
        self.closed = False
        self.moved_to: BrokerAddress | None = None
        """Where it is served next, for clients that are sent away when it is closed."""
        self.rate_in: Final = Rate(now)
        self.chunks_in: Final = Rate(now)
        self.throttle: Final = PublishThrottle(host.clock, f"rate {name.full}")
        self.admission: Final = Admission()

    producers: ProducerSet
    log: Log | None = None
    dedup: Deduplicator | None = None

    @abstractmethod
    def publish(self, producer: Producer, run: SendRun) -> None:
        """Take a run of a producer, and answer it."""

    async def add_producer(self, producer: Producer) -> asyncio.Future[None] | None:
        """Let a producer in; a future means it waits for its turn."""
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        limit = self.policy.max_producers
        is_counted = not producer.name.startswith("multiTopicsReader-")
        if limit and is_counted and len(self.producers) >= limit:
            raise ProducerBusy("Topic reached max producers limit")
        if self.policy.encryption_required and not producer.encrypted:
            raise NotAllowed(f"Encryption is required in {self.name}")
        return await self.producers.add(producer)

    def _check_consumers(self, groups: Iterable[ConsumerGroup]) -> None:
        """Raise when no consumer can be added to those that all subscriptions have."""
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        limit = self.policy.max_consumers
        if limit and sum(each.consumer_count for each in groups) >= limit:
            raise ConsumerBusy("Topic reached max consumers limit")

    def refusal_of(self, run: SendRun) -> BrokerError | None:
        """Why the topic does not take a run, whatever keeps its messages."""
        if run.corrupt:
            return ChecksumMismatch("Checksum failed on the broker")
        if self.closed:
            return TopicFenced(f"Topic {self.name} is closing")
        limit = self.policy.max_message_size  # the broker's own limit bounds the frame already
        if 0 < limit < self.host.config.maxMessageSize and max(map(len, run.entries)) > limit:
            return NotAllowed(
                f"Exceed maximum message size: the limit of the topic is {limit} bytes"
            )
        if self.policy.encryption_required and not all(map(is_encrypted, run.entries)):
            return NotAllowed(f"Messages must be encrypted in {self.name}")
        batch_max = self.host.limits.batch_messages
        if run.most > batch_max:
            return NotAllowed(
                f"A batch of {run.most} messages; at most {batch_max} are allowed"
                " (maxMessagesPerBatch)"
            )
        return None

    @abstractmethod
    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None: ...

    @abstractmethod
    def last_sequence(self, producer_name: str) -> int:
        """The highest sequence id accepted from this name, or -1 when they are not counted."""

    @abstractmethod
    def has_clients(self) -> bool: ...

    def check_unused(self) -> None:
        """Only clients make a topic busy: a subscription without consumers goes with it."""
        if self.has_clients() or self.producers.waiting_count:
            raise ResourceBusy(
                f"Topic {self.name} has connected producers or consumers; close them, or use force"
            )

    def on_producer_idle(self, producer: Producer) -> None:
        """Called when everything the producer sent is answered."""
        return

    def touch(self) -> None:
        """The topic was in use until now."""
        self.last_active_ms = self.host.clock.now_ms()

    def disconnect_producers(self) -> None:
        """The topic closes: producers look for it anew, and those that waited for a turn too."""
        self.closed = True
        self.throttle.close()
        self.producers.close(TopicFenced(f"Topic {self.name} is closing"))
        for producer in self.producers:
            producer.disconnect()

    def remove_producer(self, producer: Producer) -> None:
        self.producers.remove(producer)
        self.touch()
        if self.producers.waiting_count and not self.closed:
            self.host.tasks.start(self.producers.promote(), name="promote producer")
