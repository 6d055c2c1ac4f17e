"""Membership of a consumer group: its consumers are registered by name, and may lose their
connection for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from magnetar.broker.attachment import Link
from magnetar.broker.scalable.host import Host
from magnetar.broker.scalable.registration import ClientLink, Registration
from magnetar.model.scalable import ConsumerKind, ConsumerRecord, SubscriptionKind
from magnetar.rules.release import shares_buckets
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class GroupMembership:
    def __init__(
        self,
        host: Host,
        subscription: str,
        *,
        clock: Clock,
        config: Configuration,
        on_expired: Callable[[str], None],
    ) -> None:
        """`on_expired` is called with the name of a consumer that did not come back in time."""
        self.host = host
        self.subscription = subscription
        self._clock = clock
        self._config = config
        self._on_expired = on_expired
        self._members: dict[str, Registration] = {}
        self._entering = 0
        self._closed = False

    def __iter__(self) -> Iterator[Registration]:
        """With or without a connection, in the order in which they came first."""
        return iter(tuple(self._members.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._members))

    @property
    def kind(self) -> ConsumerKind:
        """Order is kept for all as soon as one asks for it."""
        kinds = {member.record.kind for member in self._members.values()}
        return (
            ConsumerKind.CHECKPOINT if kinds == {ConsumerKind.CHECKPOINT} else ConsumerKind.STREAM
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are none, and none is about to be registered."""
        return not self._members and not self._entering

    def get(self, name: str) -> Registration | None:
        return self._members.get(name)

    def find(self, connection: Link, consumer_id: int) -> Registration | None:
        """The consumer that registered over this connection under this id."""
        for member in self._members.values():
            if member.connection is connection and member.consumer_id == consumer_id:
                return member
        return None

    # ------------------------------------------------------------------ joining and leaving

    async def enter(self, name: str, kind: ConsumerKind) -> None:
        """Record that there is such a subscription and such a consumer."""
        self._entering += 1
        try:
            if kind is ConsumerKind.STREAM:
                await self.host.register_subscription(self.subscription, SubscriptionKind.STREAM)
            member = self._members.get(name)
            if member is None or member.record.kind is not kind:
                await self.store(name, ConsumerRecord(kind))
        finally:
            self._entering -= 1

    def connect(
        self, name: str, kind: ConsumerKind, consumer_id: int, connection: ClientLink
    ) -> tuple[Registration, bool]:
        """The registration, and whether nothing is new but its connection."""
        member = self._members.get(name)
        if member is not None and member.connection is not None and connection.closed:
            return member, True  # another one brought the name while this one's record was written
        shares = shares_buckets(connection.client_version)
        is_same = member is not None and (member.record.kind, member.shares) == (kind, shares)
        member = self._members.setdefault(name, Registration(name))
        member.record = replace(member.record, kind=kind)
        member.shares = shares
        member.stop_grace()
        member.connection, member.consumer_id = connection, consumer_id
        member.registered_ms = self._clock.now_ms()
        if connection.closed:  # it went while the record was written, and will not say so again
            self._expect_back(member)
        return member, is_same

    def remove(self, name: str) -> Registration | None:
        member = self._members.pop(name, None)
        if member is not None:
            member.stop_grace()
        return member

    def on_connection_closed(self, connection: Link) -> None:
        for member in self._members.values():
            if member.connection is connection:
                self._expect_back(member)

    def _expect_back(self, member: Registration) -> None:
        member.connection = None
        member.stop_grace()
        if not self._closed:
            grace_s = self._config.scalableTopicConsumerSessionGracePeriodSeconds
            member.grace = self._clock.call_later(grace_s, self._on_grace_over, member)

    def _on_grace_over(self, member: Registration) -> None:
        member.grace = None
        if self._members.get(member.name) is member and member.connection is None:
            _log.info(
                "consumer did not come back",
                topic=self.host.topic.full,
                subscription=self.subscription,
                consumer=member.name,
            )
            self._on_expired(member.name)

    # ------------------------------------------------------------------ records

    async def load(self) -> None:
        """Take over from an earlier controller: its consumers have the whole grace to come back."""
        records = await self.host.records.load_consumers(self.host.topic, self.subscription)
        for name, record in records.items():
            if name not in self._members:
                member = self._members[name] = Registration(name, record)
                self._expect_back(member)

    async def store(self, name: str, record: ConsumerRecord) -> None:
        await self.host.records.store_consumer(self.host.topic, self.subscription, name, record)

    async def delete(self, name: str) -> None:
        await self.host.records.delete_consumer(self.host.topic, self.subscription, name)

    def close(self) -> None:
        self._closed = True
        for member in self._members.values():
            member.stop_grace()
