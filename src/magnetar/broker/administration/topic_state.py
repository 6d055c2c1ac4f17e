"""Everything that a page about one topic shows of its present state."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from magnetar.broker.administration.lookup import web_url_of
from magnetar.broker.administration.port import PeerOwners, TopicOwners
from magnetar.broker.administration.registry import Live, Transport, carries_out, finds
from magnetar.broker.administration.scalable import find_controller, get_metadata
from magnetar.broker.administration.scalable_stats import explain, get_decisions, get_stats
from magnetar.broker.administration.topic import check_exists, existing_parts
from magnetar.broker.administration.topic_part import TopicParts, find_topic_parts
from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.ownership import Ownership
from magnetar.broker.scalable.segment import together
from magnetar.broker.scalable.service import ScalableService
from magnetar.errors import Forbidden
from magnetar.model.caller import Caller
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.permission import TOPIC_READ, Target
from magnetar.runtime.clock import Clock

_DECISIONS: Final = 40
"""The latest ones, newest last."""
_PARTS_MAX: Final = 256


class TopicView:
    """Port of a topic's owner."""

    def __init__(self, owners: PeerOwners, topic: TopicName) -> None:
        self._owners = owners
        self._topic = topic

    async def load(self) -> dict[str, Any]:
        owners, topic = self._owners, self._topic
        if topic.domain is TopicDomain.TOPIC:
            return await _load_scalable(owners.scalable, owners.clock, topic)
        return await _load_regular(owners, find_topic_parts(owners), owners.clock, topic)


class TopicViews:
    """Of topics wherever they are served; partitions are asked for one by one."""

    def __init__(self, owners: PeerOwners) -> None:
        self._clock = owners.clock
        self._owners: TopicOwners = owners
        self._parts = find_topic_parts(owners)
        self._states: OwnerPort[TopicView] = OwnerPort(
            owners.calls, TopicView, partial(TopicView, owners)
        )

    async def load(self, topic: TopicName) -> dict[str, Any]:
        found = await self._owners.resources.partitioned.get(topic)
        if found is None:
            return await self._states.at(topic).load()
        return await _load_regular(
            self._owners, self._parts, self._clock, topic, partitions=found.partitions
        )


@finds(TopicViews)
def find_views(owners: PeerOwners) -> TopicViews:
    return TopicViews(owners)


@carries_out("console.topic")
async def show_topic(
    views: TopicViews,
    authorization: Authorization,
    ownership: Ownership,
    scalable: ScalableService,
    transport: Transport,
    caller: Caller,
    topic: TopicName,
) -> Live:
    async def load() -> dict[str, Any]:
        """Checked each time: who follows a topic may lose the permission meanwhile."""
        if not await authorization.may(caller, TOPIC_READ, Target(topic=topic)):
            raise Forbidden("The permission was taken away")
        state = await views.load(topic)
        if state["kind"] != "partitioned" and not transport.has_relay:
            owner = await ownership.owner_of(topic)
            state["ownerUrl"] = web_url_of(owner, tls=transport.is_tls)
        return state

    return Live(load, lambda: _mark_of(scalable, topic))


def _mark_of(scalable: ScalableService, topic: TopicName) -> object:
    """Changes at once when the layout of a scalable topic does; costs next to nothing."""
    leading = scalable.controllers.find(topic)
    if leading is None:
        return None
    return leading.layout.epoch, leading.state.record.intent


async def _load_scalable(
    scalable: ScalableService, clock: Clock, topic: TopicName
) -> dict[str, Any]:
    controller = await find_controller(scalable, topic)
    record = controller.state.record
    return {
        "kind": "scalable",
        "atMs": clock.now_ms(),
        "metadata": await get_metadata(record),
        "stats": await get_stats(scalable, controller),
        "explain": await explain(controller),
        "decisions": [*await get_decisions(controller)][-_DECISIONS:],
    }


async def _load_regular(
    owners: TopicOwners, parts: TopicParts, clock: Clock, topic: TopicName, *, partitions: int = 0
) -> dict[str, Any]:
    await check_exists(owners, topic)
    names = (await existing_parts(owners, topic))[:_PARTS_MAX]
    stats = await together(parts.at(name).stats({}) for name in names)
    return {
        "kind": "partitioned" if partitions else "regular",
        "atMs": clock.now_ms(),
        "partitions": partitions,
        "parts": {name.full: each for name, each in zip(names, stats, strict=True)},
    }
