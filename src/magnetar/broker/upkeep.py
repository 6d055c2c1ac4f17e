"""What a broker does at intervals: rates, quotas, expiry, retention, compaction, tidying up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from magnetar.broker.catalog import AnyTopic, TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.stats import largest_backlog_bytes
from magnetar.broker.subscription import Subscription
from magnetar.errors import MagnetarError, ProtocolViolation, QuotaExceeded, QuotaHold, ResourceBusy
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.rules.retain import (
    EvictByAge,
    EvictBySize,
    FailProducers,
    HoldProducers,
    Stretch,
    Use,
    Within,
    decide_quota,
    decide_subscription_use,
    decide_topic_use,
    plan_eviction,
)
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope, yield_to_loop
from magnetar.wire.entry import publish_time_of

_log = Logger(__name__)

_RATE_INTERVAL_S: Final = 5
_INACTIVE_LOOK_S: Final = 1
_TURN_TOPICS: Final = 32
_QUOTA_SENTENCE: Final = "Cannot create producer on topic with backlog quota exceeded"


class Upkeep:
    """Gathers what a decision needs, asks for it, carries it out; one topic after the other."""

    def __init__(
        self,
        config: Configuration,
        clock: Clock,
        catalog: TopicCatalog,
        policies: PolicyService,
        partitioned: PartitionedTopics,
    ) -> None:
        self._config = config
        self._clock = clock
        self._catalog = catalog
        self._policies = policies
        self._partitioned = partitioned
        self._looked_at = clock.monotonic()

    def start(self, tasks: TaskScope) -> None:
        """Begin the rounds; they end with the tasks."""

        def schedule(interval_s: int, body: Callable[[], Awaitable[None]], name: str) -> None:
            if interval_s > 0:
                tasks.periodic(interval_s, body, name)

        config = self._config
        rate_s = _RATE_INTERVAL_S
        if "statsUpdateFrequencyInSecs" in config.settings:
            rate_s = config.statsUpdateFrequencyInSecs
        schedule(rate_s, self.tick, "rates")
        if config.backlogQuotaCheckEnabled:
            interval_s = config.backlogQuotaCheckIntervalInSeconds
            schedule(interval_s, self.check_backlog_quotas, "backlog quotas")
        expiry_s = config.messageExpiryCheckIntervalInMinutes * 60
        schedule(expiry_s, self.expire_messages, "message expiry")
        schedule(config.retentionCheckIntervalInSeconds, self.trim, "retention")
        unused_s = config.subscriptionExpiryCheckIntervalInMinutes * 60
        schedule(unused_s, self.delete_unused_subscriptions, "subscription expiry")
        compaction_s = config.brokerServiceCompactionMonitorIntervalInSeconds
        schedule(compaction_s, self.compact, "compaction")
        # Its interval can change while the broker runs.
        schedule(_INACTIVE_LOOK_S, self._delete_inactive_when_due, "inactive topics")

    async def _visit(self, body: Callable[[AnyTopic], Awaitable[None]], work: str) -> None:
        """Do something to every topic. One that fails is logged; the loop gets its turns."""
        for count, topic in enumerate(list(self._catalog.topics.values()), start=1):
            if not topic.closed:
                try:
                    await body(topic)
                except MagnetarError as failure:
                    reason = str(failure)
                    _log.warning("upkeep failed", work=work, topic=topic.name.full, reason=reason)
                # A fault in one topic, whatever it is, must not keep the others from their upkeep.
                except Exception as fault:
                    _log.error("upkeep failed", error=fault, work=work, topic=topic.name.full)
            if count % _TURN_TOPICS == 0:
                await yield_to_loop()

    async def _visit_persistent(
        self, body: Callable[[PersistentTopic], Awaitable[None]], work: str
    ) -> None:
        async def visit(topic: AnyTopic) -> None:
            if isinstance(topic, PersistentTopic):
                await body(topic)

        await self._visit(visit, work)

    # ------------------------------------------------------------------ rates

    async def tick(self) -> None:
        """Close the window of every rate, and do what should not wait for its own round."""
        await self._visit(self._tick_topic, "rates")

    async def _tick_topic(self, topic: AnyTopic) -> None:
        topic.tick(self._clock.monotonic())
        if isinstance(topic, PersistentTopic):
            if topic.dedup is not None:
                await topic.dedup.snapshot_if_due(self._clock.monotonic())
            if topic.quota_refusal is not None:
                await self._check_quota(topic)  # producers that wait come back soon after it clears
            if topic.log.record.is_open and topic.log.is_trimmable:
                await topic.log.trim()

    # ------------------------------------------------------------------ backlog quotas

    async def check_backlog_quotas(self) -> None:
        await self._visit_persistent(self._check_quota, "backlog quota")

    async def _check_quota(self, topic: PersistentTopic) -> None:
        policy = topic.policy
        decision = decide_quota(
            policy.backlog_size,
            policy.backlog_age,
            backlog_bytes=largest_backlog_bytes(topic),
            oldest_age_ms=await self._oldest_age_ms(topic),
        )
        match decision:
            case Within():
                topic.refuse_producers(None)
            case HoldProducers():
                topic.refuse_producers(QuotaHold(_QUOTA_SENTENCE))
            case FailProducers():
                topic.refuse_producers(QuotaExceeded(_QUOTA_SENTENCE))
            case EvictBySize(kept_bytes):
                topic.refuse_producers(None)
                await self._evict(topic, kept_bytes)
            case EvictByAge(age_s):
                topic.refuse_producers(None)
                for subscription in _durable(topic):
                    await subscription.expiry.expire(age_s)
            case _:
                assert_never(decision)

    async def _evict(self, topic: PersistentTopic, kept_bytes: int) -> None:
        parts = topic.log.sequence.describe()
        kept = plan_eviction([Stretch(p.ledger_id, p.entries, p.size) for p in parts], kept_bytes)
        if kept is None:
            return
        for subscription in _durable(topic):
            if subscription.cursor.first_unacked() < kept:
                await subscription.expiry.expire_to(kept, excluded=True)
                name = subscription.name
                _log.info("backlog evicted", topic=topic.name.full, subscription=name, to=str(kept))

    async def _oldest_age_ms(self, topic: PersistentTopic) -> int | None:
        """The age of the oldest unacknowledged message; notes each subscription's on the way."""
        times: dict[Position, int | None] = {}
        for subscription in _durable(topic):
            if not subscription.backlog:
                subscription.oldest = None
                continue
            position = subscription.cursor.first_unacked()
            if subscription.oldest is None or subscription.oldest[0] != position:
                if position not in times:
                    times[position] = await _publish_time_at(topic, position)
                time_ms = times[position]
                subscription.oldest = None if time_ms is None else (position, time_ms)
        noted = [each.oldest[1] for each in _durable(topic) if each.oldest is not None]
        return max(0, self._clock.now_ms() - min(noted)) if noted else None

    # ------------------------------------------------------------------ expiry and retention

    async def expire_messages(self) -> None:
        await self._visit_persistent(self._expire, "message expiry")

    async def _expire(self, topic: PersistentTopic) -> None:
        limit_s = topic.policy.message_ttl_s
        if limit_s <= 0:
            return
        oldest_age_ms = await self._oldest_age_ms(topic)
        if oldest_age_ms is not None and oldest_age_ms > limit_s * 1000:
            for subscription in _durable(topic):
                await subscription.expiry.expire(limit_s)

    async def trim(self) -> None:
        """Seal ledgers that are due and delete those that are not needed."""
        await self._visit_persistent(self._trim, "retention")

    async def _trim(self, topic: PersistentTopic) -> None:
        if topic.log.record.is_open:
            await topic.log.roll_if_due()
        await topic.log.trim()

    # ------------------------------------------------------------------ compaction

    async def compact(self) -> None:
        await self._visit_persistent(self._compact, "compaction")

    async def _compact(self, topic: PersistentTopic) -> None:
        """Compact a topic with enough new in it; a cursor keeps what is not compacted yet."""
        threshold = topic.policy.compaction_threshold
        if threshold <= 0 or topic.compactor.status()["status"] == "RUNNING":
            return
        cursor = await topic.log.cursors.open(COMPACTION_CURSOR, start=EARLIEST)
        if topic.log.sequence.bytes_between(cursor.first_unacked(), LATEST) > threshold:
            await topic.compactor.start()

    # ------------------------------------------------------------------ what is not used

    async def delete_unused_subscriptions(self) -> None:
        await self._visit_persistent(self._delete_subscriptions, "subscription expiry")

    async def _delete_subscriptions(self, topic: PersistentTopic) -> None:
        if topic.name.domain is TopicDomain.SEGMENT or topic.successor is not None:
            return  # it has subscriptions of the whole topic, which may be in use elsewhere
        now_ms = self._clock.now_ms()
        for subscription in _durable(topic):
            use = decide_subscription_use(
                has_consumers=subscription.consumer_count > 0,
                is_replicated=subscription.replicated,
                idle_ms=now_ms - subscription.last_active_ms,
                expiration_min=topic.policy.subscription_expiration_min,
            )
            if use is Use.UNUSED:
                name = subscription.name
                await topic.subscriptions.delete(name)
                _log.info("unused subscription deleted", topic=topic.name.full, subscription=name)

    async def _delete_inactive_when_due(self) -> None:
        now = self._clock.monotonic()
        interval_s = self._config.brokerDeleteInactiveTopicsFrequencySeconds
        if now >= self._looked_at + interval_s:
            self._looked_at = now
            await self.delete_inactive_topics()

    async def delete_inactive_topics(self) -> None:
        await self._visit(self._delete_if_unused, "inactive topics")

    async def _delete_if_unused(self, topic: AnyTopic) -> None:
        if topic.name.domain not in (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT):
            return  # a segment lives as long as its topic's layout names it
        if isinstance(topic, PersistentTopic) and topic.successor is not None:
            return  # it is one now
        now_ms = self._clock.now_ms()
        log = topic.log if isinstance(topic, PersistentTopic) else None
        use = decide_topic_use(
            topic.policy.inactive_topic,
            has_clients=topic.has_clients() or topic.producers.waiting_count > 0,
            subscriptions=len(topic.subscriptions),
            has_backlog=_has_backlog(topic),
            has_entries=log is not None and log.sequence.total_entries > 0,
            idle_ms=now_ms - topic.last_active_ms,
            retention_ms=topic.policy.retention_ms,
        )
        match use:
            case Use.ACTIVE:
                topic.last_active_ms = now_ms
            case Use.IDLE:
                pass
            case Use.UNUSED:
                await self._delete_topic(topic)
            case _:
                assert_never(use)

    async def _delete_topic(self, topic: AnyTopic) -> None:
        try:
            # With the subscriptions, all caught up.
            await self._catalog.delete_topic(topic.name)
        except ResourceBusy:
            return  # a client attached in the last moment
        _log.info("inactive topic deleted", topic=topic.name.full)
        if not topic.name.is_partition:
            await self._policies.delete(topic.name)
        config = self._config
        if topic.name.is_partition and config.brokerDeleteInactivePartitionedTopicMetadataEnabled:
            await self._delete_partitioned(topic.name.base)

    async def _delete_partitioned(self, name: TopicName) -> None:
        """Forget a partitioned topic none of whose partitions exists."""
        partitioned = await self._partitioned.get(name)
        if partitioned is None:
            return
        for index in range(partitioned.partitions):
            if await self._catalog.topic_exists(name.partition(index)):
                return
        await self._partitioned.delete(name)
        await self._policies.delete(name)
        _log.info("inactive partitioned topic deleted", topic=name.full)


def _durable(topic: PersistentTopic) -> list[Subscription]:
    return [each for each in topic.subscriptions.values() if each.durable]


def _has_backlog(topic: AnyTopic) -> bool:
    if not isinstance(topic, PersistentTopic):
        return False
    return any(each.backlog for each in topic.subscriptions.values())


async def _publish_time_at(topic: PersistentTopic, position: Position) -> int | None:
    """When the first entry at or after `position` was published; None when it does not say."""
    log = topic.log
    run = log.reader.read_cached(position, 1, 1) or await log.reader.read(position, 1, 1)
    if run is None:
        return None
    try:
        return publish_time_of(run.data[0])
    except ProtocolViolation:
        return None
