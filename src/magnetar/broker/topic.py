"""What every topic is to the connection, the admin side and the upkeep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from magnetar.broker.access import ProducerSet
from magnetar.broker.consumer import Consumer
from magnetar.broker.limiter import RateLimiter
from magnetar.broker.producer import Producer
from magnetar.model.name import TopicName
from magnetar.rules.policy import EffectivePolicy, RateLimit
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandSubscribe
from magnetar.wire.run import SendRun

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class Topic(ABC):
    def __init__(self, service: Service, name: TopicName, policy: EffectivePolicy) -> None:
        now = service.clock.monotonic()
        self.service = service
        self.name = name
        self.policy = policy
        self.created_ms = service.clock.now_ms()
        self.last_active_ms = self.created_ms
        self.last_publish_ms = 0
        self.closed = False
        self.rate_in = Rate(now)
        self.chunks_in = Rate(now)
        self.publish_limiter: RateLimiter | None = None
        self.publish_limited_times = 0

    producers: ProducerSet

    @abstractmethod
    def publish(self, producer: Producer, run: SendRun) -> None: ...

    @abstractmethod
    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None: ...

    @abstractmethod
    def last_sequence(self, producer_name: str) -> int:
        """The highest sequence id accepted from this name, or -1 when nobody counts."""

    @abstractmethod
    def has_clients(self) -> bool: ...

    def on_producer_idle(self, producer: Producer) -> None:
        """Everything the producer sent is answered: whoever waits for that may go on."""
        waiter = self.service.idle_waiters.pop(producer, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def remove_producer(self, producer: Producer) -> None:
        self.producers.remove(producer)
        self.last_active_ms = self.service.clock.now_ms()
        if self.producers.waiting_count and not self.closed:
            self.service.tasks.start(self.producers.promote(), name="promote producer")

    def throttle(self, producer: Producer, messages: int, size: int) -> None:
        """Stop reading from the producer's connection until the publish rate allows more."""
        limiter = self.publish_limiter
        if limiter is None:
            return
        loop = self.service.loop
        now = loop.time()
        limiter.spend(messages, size, now)
        if limiter.available(now) <= 0:
            self.publish_limited_times += 1
            connection = producer.connection
            reason = f"rate {self.name.full}"
            connection.hold(reason)
            loop.call_later(limiter.wait_s(now), connection.release, reason)

    def _make_limiter(self, rate: RateLimit | None) -> RateLimiter | None:
        if rate is None:
            return None
        return RateLimiter(rate.messages, rate.bytes, rate.period_s, self.service.clock.monotonic())
