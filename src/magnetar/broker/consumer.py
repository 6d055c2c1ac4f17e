"""A consumer attached to a subscription: its connection, its wishes and its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from magnetar.broker.peer import Peer
from magnetar.model.name import TopicName
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.dispatch.member import Member, Sharing
from magnetar.runtime.rate import Rate
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandRedeliverUnacknowledgedMessages,
    FeatureFlags,
)

_AWAY_S: Final = 10.0
"""How long a client may take to notice that a seek sent its consumer away."""
_CHECKSUM_VERSION: Final = 11
"""Of the protocol: older clients take a checksum for a part of the message."""


class ConsumerConnection(Peer, Protocol):
    """The connection that a consumer came over."""

    @property
    def protocol_version(self) -> int: ...

    @property
    def features(self) -> FeatureFlags: ...

    def send_many(self, parts: list[bytes], size: int) -> None: ...
    def send_command(self, command: BaseCommand) -> None: ...

    def close_consumer(self, consumer: Consumer, *, returns: bool = False) -> None:
        """Tell the client to subscribe again, unless it has left; one that `returns` may still be
        asked for by its id.
        """


class ConsumedTopic(Protocol):
    @property
    def name(self) -> TopicName: ...

    @property
    def moved_to(self) -> BrokerAddress | None:
        """Where a topic that is closed is served next, if that is known."""


class ConsumerPlace(Protocol):
    """The subscription that a consumer is attached to."""

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> ConsumedTopic: ...

    def on_flow(self, consumer: Consumer, permits: int) -> None: ...
    def on_writable(self, consumer: Consumer, writable: bool) -> None: ...
    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None: ...
    def on_redeliver(
        self, consumer: Consumer, command: CommandRedeliverUnacknowledgedMessages
    ) -> None: ...
    def remove_consumer(self, consumer: Consumer) -> None: ...


class ConsumerStats:
    """What a consumer was sent and what it said, in numbers."""

    __slots__ = (
        "ack_rate",
        "first_consumed_ms",
        "first_flow_ms",
        "last_acked_ms",
        "last_consumed_ms",
        "last_flow_ms",
        "rate",
        "redeliver_rate",
    )

    def __init__(self, now: float) -> None:
        self.rate: Final = Rate(now)
        self.redeliver_rate: Final = Rate(now)
        self.ack_rate: Final = Rate(now)
        self.last_acked_ms = 0
        self.first_consumed_ms = 0
        self.last_consumed_ms = 0
        self.first_flow_ms = 0
        self.last_flow_ms = 0

    def tick(self, now: float) -> None:
        self.rate.tick(now)
        self.redeliver_rate.tick(now)
        self.ack_rate.tick(now)


class Consumer:
    """What dispatch decides by (permits, what is unacknowledged) is in `member`."""

    __slots__ = (
        "closed",
        "connected_since_ms",
        "connection",
        "epoch",
        "id",
        "knows_checksums",
        "member",
        "metadata",
        "name",
        "read_compacted",
        "sharing",
        "stats",
        "subscription",
    )

    def __init__(
        self,
        connection: ConsumerConnection,
        consumer_id: int,
        name: str,
        sharing: Sharing,
        *,
        priority: int,
        metadata: Mapping[str, str],
        connected_since_ms: int,
        now: float,
        epoch: int | None = None,
        read_compacted: bool = False,
        hash_ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.connection: Final = connection
        self.id: Final = consumer_id
        self.name: Final = name
        self.sharing: Final = sharing
        self.member: Final = Member(
            self, name=name, number=consumer_id, priority=priority, ranges=hash_ranges
        )
        self.metadata: Final = metadata
        self.connected_since_ms: Final = connected_since_ms
        self.epoch: int | None = None
        """Carried by messages where they come in one order: the client drops those of an older
        epoch.
        """
        if epoch is not None:
            self.raise_epoch(epoch)
        self.read_compacted: Final = read_compacted
        self.subscription: ConsumerPlace | None = None
        self.knows_checksums: Final = connection.protocol_version >= _CHECKSUM_VERSION
        self.closed = False
        self.stats: Final = ConsumerStats(now)

    def raise_epoch(self, epoch: int) -> None:
        if not self.sharing.kind.is_individual and (self.epoch is None or epoch > self.epoch):
            self.epoch = epoch

    def on_flow(self, permits: int, now_ms: int) -> None:
        self.stats.last_flow_ms = now_ms
        if not self.stats.first_flow_ms:
            self.stats.first_flow_ms = now_ms
        if self.subscription is not None:
            self.subscription.on_flow(self, permits)

    def on_writable(self, writable: bool) -> None:
        """The connection takes more from now on, or no more."""
        if self.subscription is not None and not self.closed:
            self.subscription.on_writable(self, writable)

    def disconnect(self, *, returns: bool = False) -> None:
        """Close the consumer; its client subscribes again."""
        if not self.closed:
            self.closed = True
            self.connection.close_consumer(self, returns=returns)
            if self.subscription is not None:
                self.subscription.remove_consumer(self)

    def detach(self) -> None:
        """The client left, or its connection did."""
        if not self.closed:
            self.closed = True
            if self.subscription is not None:
                self.subscription.remove_consumer(self)


class ConsumersAway:
    """Consumers of one connection that a seek sent away: for a while their client may still ask
    for more before it has noticed.
    """

    def __init__(self) -> None:
        self._members: dict[int, tuple[Consumer, float]] = {}

    def __iter__(self) -> Iterator[Consumer]:
        return iter([consumer for consumer, _ in self._members.values()])

    def add(self, consumer: Consumer, *, now: float) -> None:
        for each, until in list(self._members.values()):
            if until <= now:
                self.pop(each.id)
        self._members[consumer.id] = (consumer, now + _AWAY_S)

    def find(self, consumer_id: int, *, now: float) -> Consumer | None:
        consumer, until = self._members.get(consumer_id, (None, 0.0))
        return consumer if now < until else None

    def pop(self, consumer_id: int) -> None:
        self._members.pop(consumer_id, None)

    def clear(self) -> None:
        self._members.clear()
