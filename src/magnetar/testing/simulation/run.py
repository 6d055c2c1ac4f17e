"""One run from one seed: a random workload under random faults, a quiet end, and judgement."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
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
from magnetar.testing.simulation.chaos import Chaos
from magnetar.testing.simulation.checker import (
    Promise,
    find_disagreement,
    find_transaction_breaks,
    find_violations,
)
from magnetar.testing.simulation.cluster import Cluster, SimulatedBroker
from magnetar.testing.simulation.history import History
from magnetar.testing.simulation.lineage import find_unfinished
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
from magnetar.testing.simulation.tally import count
from magnetar.testing.simulation.transfer import Transfers
from magnetar.testing.simulation.workload import Application, Traffic

QUIET_S: Final = 300.0
"""How long everything may take to arrive once the faults have ended."""
SETTLED_S: Final = 15.0
"""How long changes may take to end, and brokers to learn of them, once all has arrived."""
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
    tally: Counter[str]

    @property
    def fingerprint(self) -> str:
        """Equal for two runs that took the same steps."""
        text = f"{self.steps} {self.simulated_s:.9f}\n{self.history.format()}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(
    seed: int, *, on_bookies: bool | None = None, focus: Focus | None = None, pauses: bool = False
) -> Outcome:
    """`on_bookies`: whatever the seed says, brokers share bookies, or each has its own files;
    `pauses`: brokers stand still, and nothing else breaks.
    """
    random = Random(seed)
    # With a chance of its own: without transactions a seed takes the steps that it always took.
    plan = add_transfer(make_plan(random, focus), Random(f"transfer {seed}"))
    if on_bookies is not None:
        plan = choose_ledgers(plan, on_bookies=on_bookies)
    if pauses:
        plan = replace(plan, has_faults=True, has_pauses=True)
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
        scenario.chaos.faults,
        len(scenario.traffic.confirmed),
        count(history.entries),
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
        self.chaos = Chaos(
            loop, random, history, plan, self._cluster, self._administrator, self._applications
        )
        self._late: list[str] = []
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
                self.chaos.on_step,
            )

    # ------------------------------------------------------------------ the play

    async def play(self) -> None:
        self._cluster.start()
        await self._cluster.wait_ready()
        for topic in self._plan.topics:
            await self._prepare(topic, self._administrator.home_of(topic))
        if self._plan.transfer is not None:
            administrator, broker = self._administrator, self._cluster.brokers[-1]
            await _prepare_transfer(administrator, self._plan.transfer, broker)
        producing = [task for topic in self._plan.topics for task in self._begin(topic)]
        if self._transfers is not None:
            self._transfers.begin()
        self.chaos.begin()
        while self.chaos.is_busy:
            await asyncio.sleep(self._random.uniform(0.2, 3))
            await self._administrator.operate()
        self.chaos.heal()
        await asyncio.wait(producing, timeout=QUIET_S)
        await self._wait_arrived()
        if self._transfers is not None:
            self._late += await self._transfers.finish(QUIET_S)
        if self._plan.has_pauses:  # a broker that goes on has yet to give up what it owned
            await asyncio.sleep(self._cluster.metadata.session_s)
        await self._wait_settled()

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
            self.chaos.on_burst,
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

    async def _wait_settled(self) -> None:
        """Until nothing that was begun is left, and all brokers know the same; they may have
        reached the metadata just now.
        """
        end_s = self._loop.time() + SETTLED_S
        while True:
            late = [
                line
                for plan in self._plan.topics
                for broker in self._cluster.brokers
                for line in await self._administrator.ask(plan, broker)
            ]
            entries = self._history.entries
            if not any((late, *find_disagreement(entries), *find_unfinished(entries))):
                return
            if self._loop.time() > end_s:
                self._late += late
                return
            await asyncio.sleep(1)

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
        others = [self.chaos.process, *(each.process for each in self._applications)]
        for process in others:
            self._loop.kill(process)
        self._loop.bury((*self._cluster.graves, *others))


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
