"""What breaks in a run: connections, processes, disks, networks and sessions, as the seed says."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from magnetar.testing.simulation.administrator import Administrator
from magnetar.testing.simulation.bookie import SimulatedBookie
from magnetar.testing.simulation.cluster import Cluster, SimulatedBroker
from magnetar.testing.simulation.history import HEALED, Fault, History
from magnetar.testing.simulation.loop import Process, VirtualLoop
from magnetar.testing.simulation.plan import Kind, Plan, TopicPlan
from magnetar.testing.simulation.workload import Application

_FAULTS_AT_ONCE: Final = 2


class Chaos:
    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        history: History,
        plan: Plan,
        cluster: Cluster,
        administrator: Administrator,
        applications: Sequence[Application],
    ) -> None:
        self._loop = loop
        self._random = random
        self._history = history
        self._plan = plan
        self._cluster = cluster
        self._administrator = administrator
        self._applications = applications
        self._busy_until_s = 0.0
        self.process = Process("chaos")
        self.faults = 0

    def begin(self) -> None:
        self._busy_until_s = self._loop.time() + self._plan.busy_s
        if self._plan.has_faults:
            for _ in range(_FAULTS_AT_ONCE):
                self._loop.spawn(self.process, self._break_things(), "chaos")

    async def _break_things(self) -> None:
        chances: dict[Callable[[], Awaitable[None]], int] = {
            self._cut_now: 4,
            partial(self._end_broker, power=False): 2,
            partial(self._end_broker, power=True): 2,
            self._part: 2,
            self._lose_metadata: 2,
            self._fail_disk: 1,
            self._slow_disk: 2,
        }
        if self._cluster.bookies:
            del chances[self._fail_disk], chances[self._slow_disk]
            chances |= {self._restart_bookie: 4, self._slow_bookie: 3, self._fill_bookie: 1}
            chances |= {self._isolate: 4 if len(self._cluster.brokers) > 1 else 0}
        if self._plan.has_pauses:
            chances = {self._pause: 1}
        while True:
            await asyncio.sleep(self._random.uniform(0.3, 5))
            if not self.is_busy:
                return
            fault = self._random.choices(list(chances), list(chances.values()))[0]
            self.faults += 1
            await fault()

    def on_burst(self, plan: TopicPlan, process: Process) -> None:
        """Messages are on their way: the moment at which a loss of the connection hurts most, and
        a segment that is sealed before the next one.
        """
        if self.is_busy and self._plan.has_faults and self._random.random() < 0.1:
            self.faults += 1
            self._loop.call_later(self._random.uniform(0, 0.02), self._cut, process)
            if plan.kind is not Kind.CLASSIC and self._random.random() < 0.5:
                change = self._administrator.change_layout(plan, self._administrator.home_of(plan))
                self._loop.spawn(self.process, change, "change of the layout")

    def on_step(self, chance: float) -> None:
        """A step of a transaction is under way: a broker may die before it is done."""
        if self.is_busy and self._plan.has_faults and self._random.random() < chance:
            self.faults += 1

            async def die_soon() -> None:
                await asyncio.sleep(self._random.uniform(0, 0.03))
                await self._end_broker(power=self._random.random() < 0.5)

            self._loop.spawn(self.process, die_soon(), "death in a transaction")

    @property
    def is_busy(self) -> bool:
        return self._loop.time() < self._busy_until_s

    def _broker(self) -> SimulatedBroker:
        return self._random.choice(self._cluster.brokers)

    async def _cut_now(self) -> None:
        self._cut()

    def _cut(self, process: Process | None = None) -> None:
        if self._cluster.network.cut_one(process):
            self._history.add(Fault("a connection is cut"))

    async def _end_broker(self, *, power: bool) -> None:
        await _restart(self._broker(), self._history, self._random, power=power)

    async def _restart_bookie(self) -> None:
        bookie = self._random.choice(self._cluster.bookies)
        power = self._random.random() < 0.5
        await _restart(bookie, self._history, self._random, power=power)

    async def _slow_bookie(self) -> None:
        bookie = self._random.choice(self._cluster.bookies)
        self._history.add(Fault(f"{bookie.name} is slow"))
        bookie.is_slow = True
        await asyncio.sleep(self._random.uniform(1, 12))
        bookie.is_slow = False

    async def _fill_bookie(self) -> None:
        bookie = self._random.choice(self._cluster.bookies)
        self._history.add(Fault(f"the disk of {bookie.name} is full"))
        bookie.fill(True)
        await asyncio.sleep(self._random.uniform(1, 10))
        bookie.fill(False)
        self._history.add(Fault(f"the disk of {bookie.name} has room"))

    async def _part(self) -> None:
        names = [each.name for each in self._cluster.servers]
        names += [each.name for each in self._applications]
        chosen = self._random.sample(names, self._random.randint(1, len(names) // 2))
        self._history.add(Fault(f"the network parts {' '.join(chosen)} from the others"))
        self._cluster.network.part(frozenset(chosen))
        await asyncio.sleep(self._random.uniform(0.2, 20))
        self._cluster.network.heal()
        self._history.add(HEALED)

    async def _lose_metadata(self) -> None:
        victim = self._random.choice(self._cluster.servers)
        store = victim.store
        if store is None:
            return
        self._history.add(Fault(f"{victim.name} loses the metadata"))
        store.disconnect()
        # What it does not see meanwhile is what it must learn when it is back.
        if self._random.random() < 0.5:
            await self._administrator.configure(
                self._random.choice(self._plan.topics), self._broker()
            )
        await asyncio.sleep(self._random.choice((0.5, 3, 12, 15)))
        store.reconnect()
        self._history.add(Fault(f"{victim.name} reaches the metadata"))

    async def _isolate(self) -> None:
        """A broker loses the metadata for longer than its session, and neither its clients nor the
        bookies.
        """
        victim = self._broker()
        store, process = victim.store, victim.process
        if store is None or process is None:
            return
        self._history.add(Fault(f"{victim.name} loses the metadata and believes that it owns"))
        store.disconnect()
        await self._be_replaced(process)
        store.reconnect()
        self._history.add(Fault(f"{victim.name} reaches the metadata"))

    async def _pause(self) -> None:
        """A broker stands still for longer than its session, and goes on with what has arrived for
        it, before it learns that others own what it owned.
        """
        victim = self._broker()
        process = victim.process
        if process is not None and victim.pause():
            await self._be_replaced(process)
            victim.resume()

    async def _be_replaced(self, process: Process) -> None:
        """The session of a broker ends. Some of its clients connect anew meanwhile, and may find
        that another one owns.
        """
        await asyncio.sleep(self._cluster.metadata.session_s + self._random.uniform(0.1, 1))
        some = self._random.randint(1, len(self._applications))
        for each in self._random.sample(self._applications, some):
            self._cluster.network.cut_between(each.process, process)
        await asyncio.sleep(self._random.uniform(0.5, 5))

    async def _fail_disk(self) -> None:
        broker = self._broker()
        self._history.add(Fault(f"the disk of {broker.name} fails"))
        broker.disk.error = self._random.choice((errno.EIO, errno.ENOSPC))
        await asyncio.sleep(self._random.uniform(0.1, 3))
        broker.disk.error = None
        self._history.add(Fault(f"the disk of {broker.name} works"))

    async def _slow_disk(self) -> None:
        broker = self._broker()
        self._history.add(Fault(f"the disk of {broker.name} is slow"))
        broker.disk.is_slow = True
        await asyncio.sleep(self._random.uniform(1, 8))
        broker.disk.is_slow = False

    def heal(self) -> None:
        self._cluster.network.heal()
        for bookie in self._cluster.bookies:
            bookie.is_slow = False
            bookie.fill(False)
        for broker in self._cluster.brokers:
            broker.disk.error = None
            broker.disk.is_slow = False
            broker.resume()
        for each in self._cluster.servers:
            each.start()
            if each.store is not None:
                each.store.reconnect()


async def _restart(
    victim: SimulatedBroker | SimulatedBookie, history: History, random: Random, *, power: bool
) -> None:
    history.add(Fault(f"{victim.name} {'loses power' if power else 'is killed'}"))
    victim.kill(power=power)
    await asyncio.sleep(random.uniform(0.1, 15))
    victim.start()
    history.add(Fault(f"{victim.name} starts again"))
