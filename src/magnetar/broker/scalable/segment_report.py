"""Reports of what happens to segments, to the controller of their topic, here or elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec

from magnetar.broker.scalable.control import Controls
from magnetar.broker.scalable.controller_directory import ControllerDirectory
from magnetar.broker.subscription import Subscription
from magnetar.errors import BrokerError
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import CommandSubscribe, signed64

P = ParamSpec("P")

_log = Logger(__name__)


class SegmentReports:
    """Listens to the topics of this broker."""

    def __init__(
        self, controllers: ControllerDirectory, controls: Controls, tasks: TaskScope
    ) -> None:
        self._controllers = controllers
        self._controls = controls
        self._tasks = tasks

    async def on_subscribed(self, name: TopicName, request: CommandSubscribe) -> None:
        """A client attaches to a durable subscription on a segment: it is one of the whole topic,
        and is there when the client is answered.
        """
        start: Position | None = None
        age_s = signed64(request.start_message_rollback_duration_sec)
        if age_s <= 0:  # else each segment has its own place
            is_first = request.initialPosition == CommandSubscribe.Earliest
            start = EARLIEST if is_first else LATEST
        await self.adopt_subscription(name, request.subscription, start)

    async def adopt_subscription(
        self, name: TopicName, subscription: str, start: Position | None
    ) -> None:
        """Give every segment a subscription that one of them has."""
        await self._controls.at(name).adopt(subscription, start)

    def on_drained(self, subscription: Subscription) -> None:
        """Nothing is left to acknowledge on a sealed segment."""
        found = self._controllers.find(subscription.topic.name)
        has_group = found is not None and subscription.name in found.groups.coordinators
        if has_group or (found is None and self._is_elsewhere(subscription)):
            self._tasks.start(self._on_drained(subscription), name="drained")

    async def _on_drained(self, subscription: Subscription) -> None:
        """What waits for this must not begin before it is certain that it holds after a crash."""
        await subscription.cursor.flush()
        if not subscription.backlog:
            name = subscription.topic.name
            method = self._controls.at(name).on_drained
            await self._report(name, method, name.full, subscription.name)

    def on_cursor_moved(self, subscription: Subscription) -> None:
        name = subscription.topic.name
        found = self._controllers.find(name)
        if found is not None:
            found.groups.on_cursor_moved(subscription.name)
        elif self._is_elsewhere(subscription):
            method = self._controls.at(name).on_cursor_moved
            report = self._report(name, method, subscription.name)
            self._tasks.start(report, name="cursor moved")

    def _is_elsewhere(self, subscription: Subscription) -> bool:
        """Whether it is one of a segment whose topic another broker may control."""
        if not self._controls.is_shared or not subscription.durable:
            return False
        topic = subscription.topic
        return topic.name.domain is TopicDomain.SEGMENT or topic.successor is not None

    async def _report(
        self,
        topic: TopicName,
        method: Callable[P, Awaitable[None]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Notify the controller of a topic; it also looks by itself, only later."""
        try:
            await method(*args, **kwargs)
        except BrokerError as failure:
            _log.warning("not reported to controller", topic=topic.full, reason=failure.sentence)
