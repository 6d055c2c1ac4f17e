"""An administrator of the simulated cluster: changes layouts and policies, and asks what is so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from msgspec import structs

from magnetar.broker.administration.scalable import migrate
from magnetar.broker.service import Service
from magnetar.errors import BrokerError, MagnetarError, NoOwner, ServiceNotReady
from magnetar.model.segment import Segment
from magnetar.testing.simulation.cluster import Cluster, SimulatedBroker
from magnetar.testing.simulation.history import Asked, Configured, History, Operated
from magnetar.testing.simulation.plan import Kind, Plan, TopicPlan

T = TypeVar("T")

_OPERATION_S: Final = 20.0
_HARMLESS: Final = 5_000_000


class Administrator:
    def __init__(self, random: Random, history: History, plan: Plan, cluster: Cluster) -> None:
        self._random = random
        self._history = history
        self._plan = plan
        self._cluster = cluster
        self._values = 0

    def home_of(self, plan: TopicPlan) -> SimulatedBroker:
        """The broker that is asked for the topic first, and so becomes its owner."""
        return self._cluster.brokers[self._plan.topics.index(plan) % self._plan.brokers]

    async def call(
        self, broker: SimulatedBroker, operation: Callable[[Service], Awaitable[T]]
    ) -> T:
        """At this broker; or, where bundles move, at the first that owns what it is about."""
        last: BrokerError = ServiceNotReady("No broker answers")
        others = [each for each in self._cluster.brokers if each is not broker]
        for each in (broker, *others) if self._cluster.bookies else (broker,):
            try:
                return await each.call(operation)
            except (NoOwner, ServiceNotReady) as refusal:
                last = refusal
        raise last

    async def operate(self) -> None:
        plan = self._random.choice(self._plan.topics)
        broker = (
            self._random.choice(self._cluster.brokers)
            if self._random.random() < 0.3
            else self.home_of(plan)
        )
        if plan.kind is Kind.CLASSIC or self._random.random() < 0.3:
            await self.configure(plan, broker)
        else:
            await self.change_layout(plan, broker)

    async def change_layout(self, plan: TopicPlan, broker: SimulatedBroker) -> None:
        is_migration = plan.kind is Kind.MIGRATING and self._random.random() < 0.5
        is_split = self._random.random() < 0.6

        async def change(service: Service) -> None:
            if is_migration:
                await migrate(service.scalable, plan.topic, force=False, segments=None)
                return
            controller = await service.scalable.controller(plan.topic)
            active = sorted(controller.layout.active, key=_first_hash)
            if is_split or len(active) < 2:
                await controller.changes.split(self._random.choice(active).id)
            else:
                at = self._random.randrange(len(active) - 1)
                await controller.changes.merge(active[at].id, active[at + 1].id)

        try:
            await asyncio.wait_for(self.call(broker, change), _OPERATION_S)
            outcome = "done"
        except MagnetarError as refusal:
            outcome = f"{type(refusal).__name__}: {refusal}"
        except TimeoutError:
            outcome = "no answer"
        what = "migrate" if is_migration else "split" if is_split else "merge"
        self._history.add(Operated(f"{what} {plan.name} at {broker.name}", outcome))

    async def configure(self, plan: TopicPlan, broker: SimulatedBroker) -> None:
        """Set a policy to a value that does nothing but differs from all others."""
        self._values += 1
        value = _HARMLESS + self._values
        is_of_topic = self._random.random() < 0.5
        what = _policy_of(plan, is_of_topic=is_of_topic)

        async def change(service: Service) -> None:
            if is_of_topic:
                await service.policies.update(
                    plan.topic, lambda record: structs.replace(record, maxMessageSize=value)
                )
            else:
                await service.resources.namespaces.update(
                    plan.topic.namespace,
                    lambda record: structs.replace(record, max_topics_per_namespace=value),
                )

        try:
            await asyncio.wait_for(self.call(broker, change), _OPERATION_S)
            is_confirmed = True
        except (MagnetarError, TimeoutError):
            is_confirmed = False
        self._history.add(Configured(what, value, is_confirmed))

    async def ask(self, plan: TopicPlan, broker: SimulatedBroker) -> list[str]:
        """What every broker must know alike once all is quiet: the owner and the policies, those
        that it goes by too. Return why there is no answer, if there is none.
        """

        async def look(service: Service) -> list[Asked]:
            owner = await service.ownership.owner_of(plan.topic)
            record = await service.resources.namespaces.get(plan.topic.namespace)
            assert record is not None
            answers = [
                Asked(f"owner of {plan.name}", broker.name, owner.broker_id),
                Asked(
                    _policy_of(plan, is_of_topic=False),
                    broker.name,
                    str(record.max_topics_per_namespace),
                ),
            ]
            # With files of its own a broker has the policies of the topics that it owns, no others.
            if self._cluster.bookies or owner.is_self:
                of_topic = _policy_of(plan, is_of_topic=True)
                own = await service.policies.get(plan.topic)
                in_force = await service.policies.in_force.find(plan.topic)
                limit = in_force.max_message_size if own is not None else None
                answers.append(Asked(of_topic, broker.name, str(own and own.maxMessageSize)))
                answers.append(Asked(of_topic, f"{broker.name} goes by", str(limit)))
            return answers

        end_s = self._cluster.loop.time() + _OPERATION_S
        while True:
            try:
                answers = await asyncio.wait_for(broker.call(look), _OPERATION_S)
                break
            except (MagnetarError, TimeoutError) as refusal:
                if self._cluster.loop.time() > end_s:
                    return [f"no progress: {broker.name} does not know: {refusal}"]
                await asyncio.sleep(1)
        for answer in answers:
            self._history.add(answer)
        return []


def _policy_of(plan: TopicPlan, *, is_of_topic: bool) -> str:
    return f"policy of {plan.name if is_of_topic else plan.topic.namespace}"


def _first_hash(segment: Segment) -> int:
    return segment.range.first
