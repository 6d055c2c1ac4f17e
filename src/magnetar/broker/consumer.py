"""A consumer attached to a subscription: its permits, and what it holds unacknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandAck, CommandRedeliverUnacknowledgedMessages
from magnetar.wire.entry import strip_checksum

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection


_AWAY_S: Final = 10.0
"""How long a client may take to notice that a seek sent its consumer away."""
_CHECKSUM_VERSION: Final = 11
"""Of the protocol: older clients take a checksum for a part of the message."""


class SubscriptionType(IntEnum):
    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3

    @property
    def label(self) -> str:
        """The spelling of the stats and policies."""
        return "Key_Shared" if self is SubscriptionType.KEY_SHARED else self.name.capitalize()

    @property
    def is_individual(self) -> bool:
        """Whether entries are handed out one by one and tracked until they are acknowledged."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


class Attachment(Protocol):
    """What a consumer needs of its subscription, on a persistent topic or not."""

    name: str
    topic: Any
    """A live topic of either kind."""

    def on_flow(self, consumer: Consumer) -> None: ...
    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None: ...
    def on_redeliver(
        self, consumer: Consumer, command: CommandRedeliverUnacknowledgedMessages
    ) -> None: ...
    def remove_consumer(self, consumer: Consumer) -> None: ...


class Consumer:
    """The dispatcher takes permits, the client gives them. `pending` is kept by the individual
    types only.
    """

    __slots__ = (
        "ack_rate",
        "allow_out_of_order",
        "blocked",
        "blocked_permits",
        "closed",
        "connected_since_ms",
        "connection",
        "epoch",
        "first_consumed_ms",
        "first_flow_ms",
        "hash_ranges",
        "id",
        "is_bucketed",
        "is_sticky",
        "kind",
        "knows_checksums",
        "last_acked_ms",
        "last_consumed_ms",
        "last_flow_ms",
        "metadata",
        "name",
        "pending",
        "permits",
        "priority",
        "rate",
        "read_compacted",
        "redeliver_rate",
        "subscription",
        "unacked",
    )

    def __init__(
        self,
        connection: Connection,
        consumer_id: int,
        name: str,
        kind: SubscriptionType,
        *,
        priority: int,
        metadata: Mapping[str, str],
        connected_since_ms: int,
        now: float,
        epoch: int | None = None,
        read_compacted: bool = False,
        is_sticky: bool = False,
        is_bucketed: bool = False,
        hash_ranges: Sequence[tuple[int, int]] = (),
        allow_out_of_order: bool = False,
    ) -> None:
        self.connection = connection
        self.id = consumer_id
        self.name = name
        self.kind = kind
        self.priority = priority
        self.metadata = metadata
        self.connected_since_ms = connected_since_ms
        self.epoch = epoch
        self.read_compacted = read_compacted
        self.is_sticky = is_sticky
        self.is_bucketed = is_bucketed
        self.hash_ranges = tuple(hash_ranges)
        self.allow_out_of_order = allow_out_of_order
        self.subscription: Attachment | None = None
        self.knows_checksums = connection.protocol_version >= _CHECKSUM_VERSION
        self.permits = 0
        self.blocked_permits = 0
        self.blocked = False
        self.unacked = 0
        self.pending: dict[tuple[int, int], int] = {}
        self.closed = False
        self.rate = Rate(now)
        self.redeliver_rate = Rate(now)
        self.ack_rate = Rate(now)
        self.last_acked_ms = 0
        self.first_consumed_ms = 0
        self.last_consumed_ms = 0
        self.first_flow_ms = 0
        self.last_flow_ms = 0

    @property
    def can_receive(self) -> bool:
        return (
            self.permits > 0 and not self.blocked and self.connection.writable and not self.closed
        )

    def adapt(self, entries: list[bytes]) -> list[bytes]:
        """Entries as the client understands them."""
        return entries if self.knows_checksums else [strip_checksum(entry) for entry in entries]

    def on_flow(self, permits: int, now_ms: int) -> None:
        self.last_flow_ms = now_ms
        if not self.first_flow_ms:
            self.first_flow_ms = now_ms
        if self.blocked:
            self.blocked_permits += permits
            return
        self.permits += permits
        if self.subscription is not None:
            self.subscription.on_flow(self)

    def unblock(self) -> None:
        """Half of what was unacknowledged is acknowledged: the permits that came meanwhile count
        now.
        """
        self.blocked = False
        self.permits += self.blocked_permits
        self.blocked_permits = 0

    def on_writable(self) -> None:
        if self.subscription is not None and not self.closed:
            self.subscription.on_flow(self)

    def disconnect(self) -> None:
        """The broker's wish: the client is told and subscribes again."""
        if not self.closed:
            self.closed = True
            if self.connection.consumers.get(self.id) is self:
                self.connection.close_consumer(self.id)
            if self.subscription is not None:
                self.subscription.remove_consumer(self)

    def detach(self) -> None:
        """The client left, or its connection did."""
        if not self.closed:
            self.closed = True
            if self.subscription is not None:
                self.subscription.remove_consumer(self)

    def tick(self, now: float) -> None:
        self.rate.tick(now)
        self.redeliver_rate.tick(now)
        self.ack_rate.tick(now)


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
