"""Bundles that are moved or cut: because an operator or the leader asks, or this broker stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from magnetar.broker.bundle_ownership import BundleOwnership, broker_of
from magnetar.broker.bundle_record import INTERNAL, BundleAction, BundleRequest
from magnetar.broker.bundle_split import BundleSplitter
from magnetar.broker.ownership import Owner
from magnetar.broker.resource import Namespaces
from magnetar.errors import BrokerError, NoOwner, PreconditionFailed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.scalable import BrokerAddress
from magnetar.model.segment import scalable_name
from magnetar.rules.bundle import Bundle, middle_of
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_AT_ONCE: Final = 16
_CLOSED_S_MAX: Final = 60.0
"""How long the topics of a bundle may take to close; then it goes without those that did not."""

_log = Logger(__name__)


class BundleMover:
    """`close_topics` closes what is loaded of a bundle and tells clients where it goes, if that is
    known.
    """

    def __init__(
        self,
        ownership: BundleOwnership,
        namespaces: Namespaces,
        close_topics: Callable[[Bundle, BrokerAddress | None], Awaitable[None]],
        *,
        clock: Clock,
    ) -> None:
        self.ownership: Final = ownership
        self.splitter: Final = BundleSplitter(namespaces, ownership)
        self._close_topics = close_topics
        self._clock = clock
        ownership.on_request = self._on_request

    async def unload(self, bundle: Bundle, destination: str | None = None) -> None:
        """Let a bundle go, wherever it is owned; to the destination, or to the broker that the
        leader finds. One without an owner stays without.
        """
        if destination is not None:
            await self._require_broker(destination)
        owner = await self.ownership.find_owner(bundle)
        if owner is None or owner.broker_id == destination:
            return
        if owner.is_self:
            await self._leave(bundle, destination)
            return
        action = BundleAction.UNLOAD if destination is None else BundleAction.OWN
        await self.ownership.requests.put(
            bundle, BundleRequest(action=action, brokerId=destination or "")
        )
        await self.ownership.requests.wait_done(bundle)

    async def prepare(self, segment: TopicName) -> None:
        """Before a segment is made: move its bundle to a broker that carries less, if nothing is in
        it. One without an owner is given to the least loaded broker anyway. The bundle of the topic
        itself stays: its controller makes the segment, and would end before that is done.
        """
        try:
            bundle = await self.ownership.bundle_of(segment)
            if bundle is None or bundle.holds(scalable_name(segment)):
                return
            owner = await self.ownership.find_owner(bundle)
            if owner is None:
                return
            target = await self.ownership.choose_for_idle(bundle, owner.broker_id)
            if target is not None:
                _log.info("bundle moves for a new topic", bundle=str(bundle), to=target)
                await self.unload(bundle, target)
        except BrokerError as failure:  # then it is made where the bundle is
            _log.warning("topic not placed", topic=segment.full, reason=failure.sentence)

    async def unload_all(self, bundles: Collection[Bundle], destination: str | None = None) -> None:
        await _for_each(bundles, lambda bundle: self.unload(bundle, destination))

    async def gather(self, bundles: Collection[Bundle]) -> None:
        """Own these bundles here, for what is to be done with all of their topics."""

        async def take(bundle: Bundle) -> None:
            owner = await self.ownership.owner_of_bundle(bundle)
            if not owner.is_self:
                await self.unload(bundle, self.ownership.me.broker_id)

        await _for_each(bundles, take)

    async def split(self, bundle: Bundle, cuts: Collection[int], *, unload: bool = False) -> None:
        """Cut a bundle that is owned here, or has no owner."""
        owner = await self.ownership.owner_of_bundle(bundle)
        if not owner.is_self:
            raise NoOwner(f"Bundle {bundle} is owned by {owner.broker_id}")
        parts = await self.splitter.split(bundle, cuts)
        if unload:
            await self.unload_all(parts)

    async def forget(self, namespace: NamespaceName) -> None:
        """Give the bundles of a namespace up that is deleted; nothing is loaded of them."""
        for bundle in self.ownership.bundles:
            if bundle.namespace == namespace:
                await self.ownership.locks.release(bundle)

    async def leave_all(self) -> None:
        """Hand everything over, because this broker stops."""
        self.ownership.is_leaving = True

        async def leave(bundle: Bundle) -> None:
            try:
                await self._leave(bundle, None)
            except BrokerError as failure:
                _log.warning("bundle not handed over", bundle=str(bundle), reason=failure.sentence)

        await _for_each(self.ownership.bundles, leave)

    async def _on_request(self, bundle: Bundle, request: BundleRequest) -> None:
        match request.action:
            case BundleAction.OWN:
                await self._leave(bundle, request.brokerId)
            case BundleAction.UNLOAD:
                await self._leave(bundle, None)
            case BundleAction.SPLIT:
                await self.splitter.split(bundle, (middle_of(bundle.range),))

    async def _leave(self, bundle: Bundle, destination: str | None) -> None:
        target = await self._find_target(bundle, destination)
        address = None if target is None else _address_for_clients(target)

        async def close() -> None:
            try:
                async with self._clock.timeout(_CLOSED_S_MAX):
                    await self._close_topics(bundle, address)
            except TimeoutError:
                _log.error("topics of a bundle did not close in time", bundle=str(bundle))

        await self.ownership.hand_over(bundle, target, close)
        _log.info(
            "bundle unloaded",
            bundle=str(bundle),
            destination="" if target is None else target.broker_id,
        )

    async def _find_target(self, bundle: Bundle, destination: str | None) -> Owner | None:
        """None when the next lookup should decide, since there is no broker to name. It may be this
        one: the topics are loaded again here.
        """
        if broker_of(bundle.namespace) is not None:
            return None
        if destination is None:
            destination = await self.ownership.choose(bundle)
        if destination is None:
            return None
        if destination == self.ownership.me.broker_id:
            return None if self.ownership.is_leaving else self.ownership.me
        return await self.ownership.directory.find(destination)

    async def _require_broker(self, broker_id: str) -> None:
        if await self.ownership.directory.find(broker_id) is None:
            raise PreconditionFailed(f"There is no broker {broker_id} to move the bundle to")


async def _for_each(bundles: Collection[Bundle], act: Callable[[Bundle], Awaitable[None]]) -> None:
    """Several at once, not all."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def act_in_turn(bundle: Bundle) -> None:
        async with gate:
            await act(bundle)

    await asyncio.gather(*map(act_in_turn, bundles))


def _address_for_clients(target: Owner) -> BrokerAddress | None:
    """Where clients may go without a lookup: not where they may have asked for a listener."""
    is_plain = set(target.listeners) <= {INTERNAL}
    return target.address if is_plain else None
