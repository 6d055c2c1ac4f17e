"""The subscriptions of a persistent topic: how they are opened, made and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from magnetar.broker.consumer_group import check_subscription_limit
from magnetar.broker.start import find_start
from magnetar.broker.subscription import SubscribedTopic, Subscription
from magnetar.broker.termination import Termination
from magnetar.errors import (
    BrokerError,
    Conflict,
    ResourceBusy,
    SubscriptionNotFound,
    TopicFenced,
)
from magnetar.ledger.cursor import Cursor
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.subscription import INTERNAL_CURSORS, check_subscription_name
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandSubscribe


class SetTopic(SubscribedTopic, Protocol):
    """The topic that subscriptions are opened on."""

    @property
    def termination(self) -> Termination: ...

    def touch(self) -> None: ...


class SubscriptionSet(dict[str, Subscription]):
    """By name."""

    def __init__(self, topic: SetTopic) -> None:
        super().__init__()
        self._topic = topic
        self.removed_rate_out: Final = Rate(topic.host.clock.monotonic())
        """What subscriptions that are gone have delivered, so that the topic's counters never go
        back.
        """

    def restore(self) -> None:
        """Those that the log has cursors of."""
        for name, cursor in self._topic.log.cursors.items():
            if name not in INTERNAL_CURSORS:
                from_start = cursor.mark_delete.entry_id < 0
                self[name] = Subscription(
                    self._topic, name, cursor, durable=True, from_start=from_start
                )

    async def open(self, request: CommandSubscribe) -> Subscription:
        """The one that a client attaches to; it is made when it may be."""
        topic, name = self._topic, request.subscription
        if name in self:
            return self[name]
        check_subscription_limit(self._topic, len(self))
        if request.durable and not topic.policy.auto_subscription_creation:
            raise SubscriptionNotFound(
                f"Subscription {name} does not exist and may not be created by attaching"
            )
        start = await find_start(topic.log, request, now_ms=topic.host.clock.now_ms())
        if name in self:  # another client attached meanwhile
            return self[name]
        if not request.durable:
            return self._open_reader(name, start)
        return await self.create(
            name,
            position=start,
            properties={each.key: each.value for each in request.subscription_properties},
            replicated=request.replicate_subscription_state,
        )

    def _open_reader(self, name: str, start: Position) -> Subscription:
        self._check_open()
        cursor = self._topic.log.cursors.open_transient(name, self._visible(start))
        self._skip_aborted(cursor)
        from_start = start == EARLIEST
        self[name] = Subscription(self._topic, name, cursor, durable=False, from_start=from_start)
        return self[name]

    def _visible(self, start: Position) -> Position:
        """The latest is what readers see from now on: an open transaction's messages too."""
        return self._topic.buffer.pin or start if start == LATEST else start

    def _skip_aborted(self, cursor: Cursor) -> None:
        if self._topic.transactions is not None:
            self._topic.transactions.skip_aborted(cursor)

    def _check_open(self) -> None:
        if self._topic.closed:
            raise TopicFenced(f"Topic {self._topic.name} is closing")

    async def create(
        self,
        name: str,
        *,
        position: Position = LATEST,
        properties: Mapping[str, str] | None = None,
        replicated: bool = False,
        is_limited: bool = True,
    ) -> Subscription:
        """`position` is the first entry to read."""
        check_subscription_name(name)
        await self._topic.termination.wait()
        if name in self:
            raise Conflict("Subscription already exists for topic")
        if is_limited:
            check_subscription_limit(self._topic, len(self))
        log = self._topic.log
        if position not in (EARLIEST, LATEST):
            position = max(position, log.sequence.first_position)
        cursor = await log.cursors.open(
            name,
            start=self._visible(position),
            properties={},
            cursor_properties=dict(properties or {}),
        )
        self._check_open()
        if name in self:  # another client attached while the cursor was being made
            return self[name]
        self._skip_aborted(cursor)
        subscription = self[name] = Subscription(
            self._topic,
            name,
            cursor,
            durable=True,
            from_start=position == EARLIEST,
            replicated=replicated,
        )
        return subscription

    async def delete(self, name: str, *, force: bool = False) -> None:
        check_subscription_name(name)
        subscription = self.get(name)
        if subscription is None:
            raise SubscriptionNotFound(
                f"Subscription {name} not found for topic {self._topic.name}"
            )
        if subscription.closed or (subscription.consumer_count and not force):
            raise ResourceBusy("Subscription has active connected consumers")
        await subscription.close()
        if not subscription.durable:
            self.remove_transient(subscription)
            return
        try:
            # The subscription stays in its place meanwhile: a client that attaches now must not be
            # given the cursor that goes.
            await self._topic.log.cursors.delete(name)
        except BrokerError:
            subscription.reopen()
            raise
        try:
            if self._topic.transactions is not None:
                await self._topic.transactions.drop_subscription(name)
        finally:
            self._forget(subscription)

    def remove_transient(self, subscription: Subscription) -> None:
        """A reader left: its cursor lived in memory only."""
        if self.get(subscription.name) is subscription:
            if subscription.dispatcher is not None:
                subscription.dispatcher.close()
            self._forget(subscription)
            if not self._topic.closed:  # closing takes the cursors along
                self._topic.host.tasks.start(subscription.cursor.close(), name="close reader")

    def _forget(self, subscription: Subscription) -> None:
        self.pop(subscription.name, None)
        self._topic.buffer.pending.pop(subscription.name, None)
        self.removed_rate_out.add(subscription.rate.count, subscription.rate.bytes)
        self._topic.touch()
