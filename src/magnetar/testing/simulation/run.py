"""One run from one seed: a random workload under random faults, a quiet end, and judgement."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from magnetar.broker.administration.partition import create_partitioned
from magnetar.broker.administration.scalable import create_topic
from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.service import Service
from magnetar.errors import Conflict
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies
from magnetar.testing.simulation.administrator import Administrator
from magnetar.testing.simulation.bookie import SimulatedBookie
from magnetar.testing.simulation.checker import (
    Promise,
    find_transaction_breaks,
    find_violations,
)
from magnetar.testing.simulation.cluster import Cluster, SimulatedBroker
from magnetar.testing.simulation.history import HEALED, Fault, History
from magnetar.testing.simulation.loop import Process, Stuck, VirtualLoop
from magnetar.testing.simulation.plan import (
    Focus,
    Kind,
    Plan,
    TopicPlan,
    TransferPlan,
    add_transfer,
    choose_ledgers,
    make_plan,
)
from magnetar.testing.simulation.transfer import Transfers
from magnetar.testing.simulation.workload import Application, Traffic

QUIET_S: Final = 300.0
"""How long everything may take to arrive once the faults have ended."""
_FAULTS_AT_ONCE: Final = 2
_CLUSTER: Final = "simulation"
_SETTINGS: Final = (
    f"clusterName={_CLUSTER}",
    "scalableTopicAutoScaleIntervalSeconds=2",
    "scalableTopicLoadReportIntervalSeconds=1",
    "scalableTopicSplitCooldownSeconds=2",
    "scalableTopicMergeCooldownSeconds=2",
    "scalableTopicMergeWindowSeconds=3",
    "scalableTopicSplitMsgRateInThreshold=8",
    "scalableTopicMergeMsgRateInThreshold=2",
    "scalableTopicConsumerSessionGracePeriodSeconds=3",
    "scalableTopicMaxSegments=6",
    "defaultRetentionTimeInMinutes=-1",
    "defaultRetentionSizeInMB=-1",
    "managedLedgerMaxEntriesPerLedger=40",
    "managedLedgerMinLedgerRolloverTimeMinutes=0",
)
_TRANSACTIONS: Final = (
    "transactionCoordinatorEnabled=true",
    "transactionCoordinatorScalableTopicsParallelism=2",
)
_QUORUMS: Final = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    plan: Plan
    violations: tuple[str, ...]
    history: History
    simulated_s: float
    steps: int
    faults: int
    messages: int

    @property
    def fingerprint(self) -> str:
        """Equal for two runs that took the same steps."""
        text = f"{self.steps} {self.simulated_s:.9f}\n{self.history.format()}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(seed: int, *, on_bookies: bool | None = None, focus: Focus | None = None) -> Outcome:
    """`on_bookies`: whatever the seed says, brokers share bookies, or each has its own files."""
    random = Random(seed)
    # With a chance of its own: without transactions a seed takes the steps that it always took.
    plan = add_transfer(make_plan(random, focus), Random(f"transfer {seed}"))
    if on_bookies is not None:
        plan = choose_ledgers(plan, on_bookies=on_bookies)
    loop = VirtualLoop(random)
    history = History(loop.time)
    scenario = Scenario(loop, random, history, plan)
    try:
        try:
            loop.run_until_complete(loop.spawn(Process("director"), scenario.play(), "director"))
            violations = scenario.judge()
        except Stuck as stuck:
            violations = [f"no progress: {stuck}"]
        violations += [f"unexpected failure: {each}" for each in loop.failures]
    finally:
        scenario.end()
    return Outcome(
        seed,
        plan,
        tuple(violations),
        history,
        loop.time(),
        loop.steps,
        scenario.faults,
        len(scenario.traffic.confirmed),
    )


class Scenario:
    def __init__(self, loop: VirtualLoop, random: Random, history: History, plan: Plan) -> None:
        self._loop = loop
        self._random = random
        self._history = history
        self._plan = plan
        auto_scale = f"scalableTopicAutoScaleEnabled={str(plan.has_auto_scale).lower()}"
        quorums = zip(_QUORUMS, plan.copies, strict=True)
        settings = (*_SETTINGS, auto_scale, *(f"{name}={number}" for name, number in quorums))
        if plan.transfer is not None:
            settings += _TRANSACTIONS
        self._cluster = Cluster(
            loop, random, history, brokers=plan.brokers, settings=settings, bookies=plan.bookies
        )
        self._administrator = Administrator(random, history, plan, self._cluster)
        self._applications: list[Application] = []
        self._chaos = Process("chaos")
        self._late: list[str] = []
        self._busy_until_s = 0.0
        self.traffic = Traffic()
        self._transfers: Transfers | None = None
        if plan.transfer is not None:
            self._transfers = Transfers(
                plan.transfer,
                plan.topics[0],
                history,
                self.traffic,
                random,
                self._application,
                self._on_step,
            )
        self.faults = 0

    # ------------------------------------------------------------------ the play

    async def play(self) -> None:
        self._cluster.start()
        await self._cluster.wait_ready()
        for topic in self._plan.topics:
            await self._prepare(topic, self._administrator.home_of(topic))
        if self._plan.transfer is not None:
            administrator, broker = self._administrator, self._cluster.brokers[-1]
            await _prepare_transfer(administrator, self._plan.transfer, broker)
        self._busy_until_s = self._loop.time() + self._plan.busy_s
        producing = [task for topic in self._plan.topics for task in self._begin(topic)]
        if self._transfers is not None:
            self._transfers.begin()
        if self._plan.has_faults:
            for _ in range(_FAULTS_AT_ONCE):
                self._loop.spawn(self._chaos, self._break_things(), "chaos")
        while self._is_busy:
            await asyncio.sleep(self._random.uniform(0.2, 3))
            await self._administrator.operate()
        self._heal()
        await asyncio.wait(producing, timeout=QUIET_S)
        await self._wait_arrived()
        if self._transfers is not None:
            self._late += await self._transfers.finish(QUIET_S)
        for plan in self._plan.topics:
            for broker in self._cluster.brokers:
                self._late += await self._administrator.ask(plan, broker)

    async def _prepare(self, plan: TopicPlan, broker: SimulatedBroker) -> None:
        await broker.call(
            lambda service: _make_namespace(service, plan.topic.namespace, plan.has_deduplication)
        )

        async def make(service: Service) -> None:
            if plan.kind is Kind.SCALABLE:
                # A call whose answer was lost, and which is made again, may have made it.
                with suppress(Conflict):
                    await create_topic(service.scalable, plan.topic, plan.parts, None)
            elif plan.parts:
                # One broker may have made the topic, and not the partitions that others own.
                with suppress(Conflict):
                    parts = find_topic_parts(service)
                    await create_partitioned(service, parts, plan.topic, plan.parts)
            else:
                await _make_topic(plan.topic, service)

        await self._administrator.call(broker, make)

    def _begin(self, plan: TopicPlan) -> list[asyncio.Task[Any]]:
        for reading, consumers in plan.readings:
            for number in range(consumers):
                name = f"{plan.topic.namespace.local}-{reading}{number}"
                self._application(name).consume(plan, reading)
        return [self._application(each.name).produce(plan, each) for each in plan.producers]

    def _application(self, name: str) -> Application:
        made = Application(
            self._loop,
            self._history,
            self.traffic,
            name,
            self._cluster.service_url,
            self._random,
            self._on_burst,
        )
        self._applications.append(made)
        return made

    async def _wait_arrived(self) -> None:
        end_s = self._loop.time() + QUIET_S
        while missing := [
            f"{plan.name} {reading}: {count} messages"
            for plan in self._plan.topics
            for reading, _ in plan.readings
            if (count := self.traffic.missing(plan.name, reading))
        ]:
            if self._loop.time() > end_s:
                self._late = [f"no progress: {QUIET_S:.0f} quiet seconds, {e}" for e in missing]
                return
            await asyncio.sleep(0.5)

    def judge(self) -> list[str]:
        promises = [
            Promise(plan.name, reading, reading.keeps_order, plan.has_deduplication)
            for plan in self._plan.topics
            for reading, _ in plan.readings
        ]
        found = [line for each in self._applications for line in each.failures]
        found += [*self._late, *find_violations(self._history, promises)]
        if self._transfers is not None:
            found += find_transaction_breaks(self._history.entries, self._transfers.views)
        return found

    def end(self) -> None:
        """Let go of everything, where it can harm nothing any more."""
        for each in self._cluster.servers:
            each.kill(power=False)
        others = [self._chaos, *(each.process for each in self._applications)]
        for process in others:
            self._loop.kill(process)
        self._loop.bury((*self._cluster.graves, *others))

    # ------------------------------------------------------------------ faults

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
        while True:
            await asyncio.sleep(self._random.uniform(0.3, 5))
            if not self._is_busy:
                return
            fault = self._random.choices(list(chances), list(chances.values()))[0]
            self.faults += 1
            await fault()

    def _on_burst(self, plan: TopicPlan, process: Process) -> None:
        """Messages are on their way: the moment at which a loss of the connection hurts most, and
        a segment that is sealed before the next one.
        """
        if self._is_busy and self._plan.has_faults and self._random.random() < 0.1:
            self.faults += 1
            self._loop.call_later(self._random.uniform(0, 0.02), self._cut, process)
            if plan.kind is not Kind.CLASSIC and self._random.random() < 0.5:
                change = self._administrator.change_layout(plan, self._administrator.home_of(plan))
                self._loop.spawn(self._chaos, change, "change of the layout")

    def _on_step(self, chance: float) -> None:
        """A step of a transaction is under way: a broker may die before it is done."""
        if self._is_busy and self._plan.has_faults and self._random.random() < chance:
            self.faults += 1

            async def die_soon() -> None:
                await asyncio.sleep(self._random.uniform(0, 0.03))
                await self._end_broker(power=self._random.random() < 0.5)

            self._loop.spawn(self._chaos, die_soon(), "death in a transaction")

    @property
    def _is_busy(self) -> bool:
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
        # What it does not hear of meanwhile is what it must learn when it is back.
        if self._random.random() < 0.5:
            await self._administrator.configure(
                self._random.choice(self._plan.topics), self._broker()
            )
        await asyncio.sleep(self._random.choice((0.5, 3, 12, 15)))
        store.reconnect()
        self._history.add(Fault(f"{victim.name} reaches the metadata"))

    async def _isolate(self) -> None:
        """A broker loses the metadata for longer than its session, and neither its clients nor the
        bookies. Some of the clients connect anew meanwhile, and may find that another one owns.
        """
        victim = self._broker()
        store, process = victim.store, victim.process
        if store is None or process is None:
            return
        self._history.add(Fault(f"{victim.name} loses the metadata and believes that it owns"))
        store.disconnect()
        await asyncio.sleep(self._cluster.metadata.session_s + self._random.uniform(0.1, 1))
        some = self._random.randint(1, len(self._applications))
        for each in self._random.sample(self._applications, some):
            self._cluster.network.cut_between(each.process, process)
        await asyncio.sleep(self._random.uniform(0.5, 5))
        store.reconnect()
        self._history.add(Fault(f"{victim.name} reaches the metadata"))

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

    def _heal(self) -> None:
        self._cluster.network.heal()
        for bookie in self._cluster.bookies:
            bookie.is_slow = False
            bookie.fill(False)
        for broker in self._cluster.brokers:
            broker.disk.error = None
            broker.disk.is_slow = False
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


async def _prepare_transfer(
    administrator: Administrator, plan: TransferPlan, broker: SimulatedBroker
) -> None:
    await broker.call(
        lambda service: _make_namespace(service, plan.input.namespace, has_deduplication=True)
    )
    for topic in (plan.input, plan.output):
        await administrator.call(broker, partial(_make_topic, topic))


async def _make_topic(topic: TopicName, service: Service) -> None:
    await service.catalog.load_topic(topic, create=True)


async def _make_namespace(
    service: Service, namespace: NamespaceName, has_deduplication: bool
) -> None:
    policies = Policies(
        replication_clusters=(_CLUSTER,), deduplicationEnabled=has_deduplication or None
    )
    await service.resources.namespaces.create(namespace, policies)
