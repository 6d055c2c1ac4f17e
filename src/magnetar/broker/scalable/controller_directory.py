"""Directory of the controllers of this broker: there is one for a topic while it is used, or while
anything is left to be done in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.ownership import Ownership
from magnetar.broker.scalable.controller import Controller, ControllerNeeds
from magnetar.broker.scalable.segment import together
from magnetar.errors import (
    BrokerError,
    NoOwner,
    ServiceNotReady,
    StoreClosed,
    TopicNotFound,
)
from magnetar.metadata.store import Cancel, Change, ChangeKind
from magnetar.model.name import TopicName
from magnetar.model.scalable import CONTROLLER, TOPICS, parse_topic_path
from magnetar.model.scaling import ScaleTally
from magnetar.model.segment import scalable_name
from magnetar.rules.bundle import Bundle
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_RETRY_S: Final = 1.0
_WAKE_S: Final = 30.0
_WOKEN_MAX: Final = 10_000

_log = Logger(__name__)


class ControllerDirectory:
    def __init__(
        self,
        needs: ControllerNeeds,
        ownership: Ownership,
        catalog: TopicCatalog,
        tasks: TaskScope,
        *,
        on_deleted: Callable[[TopicName], None],
    ) -> None:
        self._needs = needs
        self._records = needs.records
        self._ownership = ownership
        self._catalog = catalog
        self._tasks = tasks
        self._on_deleted = on_deleted
        self._controllers: dict[TopicName, Controller] = {}
        self._idle: dict[TopicName, tuple[int, ScaleTally]] = {}
        """Active segments and counts of topics that were controlled here and are not in use."""
        self._woken: dict[TopicName, float] = {}
        """When the controllers of topics at other brokers were woken, oldest first."""
        self._orphans: set[TopicName] = set()
        """Topics whose controller went; another broker may have to go on with a change."""
        self._take_over = Reconciler(
            tasks, "orphans", self._adopt_orphans, clock=needs.clock, retried=BrokerError
        )
        self._cancel_watch: Cancel | None = None
        if ownership.is_shared:
            ownership.listen(self._on_lost)
            self._cancel_watch = needs.store.watch(TOPICS, self._on_change)

    def leading(self) -> Iterator[Controller]:
        """Those of topics that this broker leads."""
        return (each for each in self._controllers.values() if each.leadership.is_leading)

    def present(self) -> Iterator[Controller]:
        """The same, without topics that are being deleted."""
        return (each for each in tuple(self.leading()) if not each.is_gone)

    def find(self, topic: TopicName) -> Controller | None:
        return self._controllers.get(scalable_name(topic))

    async def get(self, topic: TopicName) -> Controller:
        """The controller of a topic, leading here; raise NoOwner when another broker has it."""
        name = scalable_name(topic)
        controller = self._controllers.get(name)
        if controller is None:
            if self._catalog.closing:
                raise ServiceNotReady("The broker is closing")
            await self._records.require(name)
            await self.require_owner(name)
            controller = self._controllers.get(name) or self._add(name)
        await controller.leadership.ready()
        self._idle.pop(name, None)
        return controller

    def _add(self, name: TopicName) -> Controller:
        controller = self._controllers[name] = Controller(name, self._needs, on_end=self._on_end)
        return controller

    async def require_owner(self, name: TopicName) -> None:
        """A topic is controlled by the broker that owns its name, wherever its segments are."""
        owner = await self._ownership.owner_of(name)
        if not owner.is_self:
            raise NoOwner(f"{name} is controlled by {owner.service_url}")

    def wake(self, topic: TopicName) -> None:
        """A topic is used: see to it that it has a controller, without waiting for it."""
        if scalable_name(topic) not in self._controllers and not self._catalog.closing:
            self._tasks.start(self._wake(topic), name="controller")

    async def _wake(self, topic: TopicName) -> None:
        try:
            try:
                await self.get(topic)
            except NoOwner:
                if self._ownership.is_shared:
                    await self._wake_elsewhere(scalable_name(topic))
        except (NoOwner, StoreClosed, TopicNotFound, ServiceNotReady):
            pass  # changing hands, or deleted
        except BrokerError as failure:
            _log.warning("topic has no controller", topic=topic.full, reason=failure.sentence)

    async def _wake_elsewhere(self, topic: TopicName) -> None:
        """Not for every client that attaches: a controller stays for a while."""
        now_s, last_s = self._needs.clock.monotonic(), self._woken.pop(topic, None)
        if last_s is None or now_s - last_s >= _WAKE_S:
            last_s = now_s
            await self._needs.wake_elsewhere(topic)
        if len(self._woken) >= _WOKEN_MAX:
            del self._woken[next(iter(self._woken))]
        self._woken[topic] = last_s

    # ------------------------------------------------------------------ what an earlier one left

    async def resume(self) -> None:
        """Wake the controllers of topics in which something is left to be done."""
        for namespace in await self._records.namespaces():
            for topic, record in (await self._records.load_unfinished(namespace)).items():
                await self._resume(topic, is_deleting=record.is_deleting)

    async def _resume(self, topic: TopicName, *, is_deleting: bool) -> None:
        if not is_deleting:
            await self._wake(topic)
        elif topic not in self._controllers:
            try:
                await self.require_owner(topic)
                await self._add(topic).leadership.ready()
            except (NoOwner, TopicNotFound):
                pass  # another broker's, or deleted by now, as it should be

    # ------------------------------------------------------------------ rounds

    async def evaluate(self) -> None:
        """Ask every topic that is controlled here whether it should split or merge."""
        await together(each.scaler.evaluate() for each in tuple(self.leading()))

    async def run_round(self) -> None:
        """What a controller does now and then; one that is not needed any more goes."""
        for controller in list(self._controllers.values()):
            try:
                if controller.leadership.is_leading:
                    await controller.subscriptions.delete_unused()
                    await controller.changes.prune()
                    await controller.subscriptions.drop_idle_groups()
                if not self._records.is_watched(controller.topic) and not (
                    await controller.is_needed()
                ):
                    await self._close(controller)
            except BrokerError as failure:
                topic = controller.topic.full
                _log.warning("round failed", topic=topic, reason=failure.sentence)

    def tallies(self) -> Mapping[TopicName, tuple[int, ScaleTally]]:
        """How many segments each topic has that is controlled here, and how it scaled itself. The
        counts of one that is not used are not forgotten.
        """
        leading = {
            each.topic: (len(each.layout.active), each.scaler.tally) for each in self.leading()
        }
        return self._idle | leading

    # ------------------------------------------------------------------ the end

    def _on_end(self, controller: Controller) -> None:
        if controller.is_gone:
            self._on_deleted(controller.topic)
        if self._controllers.get(controller.topic) is controller:
            del self._controllers[controller.topic]
        self._tasks.start(self._finish(controller), name="close controller")

    async def _finish(self, controller: Controller) -> None:
        """A deletion that came to a halt at its very end is taken up again."""
        await controller.finish()
        record = await self._records.get(controller.topic)
        if record is not None and record.is_deleting:
            await self._needs.clock.sleep(_RETRY_S)
            await self._resume(controller.topic, is_deleting=True)

    async def _close(self, controller: Controller) -> None:
        if self._controllers.get(controller.topic) is not controller:
            return  # it ended while it was looked at, and another one may be there by now
        del self._controllers[controller.topic]
        is_leading = controller.leadership.is_leading
        await controller.close()
        tally = controller.scaler.tally
        if is_leading and tally != ScaleTally(epoch=tally.epoch):
            self._idle[controller.topic] = (len(controller.layout.active), tally)

    def _on_lost(self, bundle: Bundle) -> None:
        """Controllers follow the names of their topics."""
        if any(map(bundle.holds, self._controllers)):
            self._tasks.start(self.leave(bundle), name="leave controllers")

    async def leave(self, bundle: Bundle) -> None:
        """Close the controllers of topics whose names are owned elsewhere from now on."""
        for topic, controller in list(self._controllers.items()):
            if bundle.holds(topic):
                await self._close(controller)

    def _on_change(self, change: Change) -> None:
        path, _, name = change.path.rpartition("/")
        if change.kind is ChangeKind.DELETED and name == CONTROLLER:
            topic = parse_topic_path(path)
            if topic is not None and topic not in self._controllers:
                self._orphans.add(topic)
                self._take_over.request()

    async def _adopt_orphans(self) -> None:
        failed: BrokerError | None = None
        for topic in tuple(self._orphans):
            try:
                await self._adopt(topic)
            except BrokerError as failure:
                failed = failure
            else:
                self._orphans.discard(topic)
        if failed is not None and not self._catalog.closing:
            raise failed

    async def _adopt(self, topic: TopicName) -> None:
        """The owner of a topic's name goes on with what the last controller left."""
        record = await self._records.get(topic)
        if record is None or (record.intent is None and not record.layout.sealed):
            return
        if (await self._ownership.owner_of(topic)).is_self:
            await self._resume(topic, is_deleting=record.is_deleting)

    async def close(self) -> None:
        if self._cancel_watch is not None:
            self._cancel_watch()
        self._take_over.close()
        controllers, self._controllers = self._controllers, {}
        await asyncio.gather(*(controller.close() for controller in controllers.values()))
