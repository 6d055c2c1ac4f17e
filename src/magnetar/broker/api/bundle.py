"""Bundles of a namespace, and what is done to all topics of one or of the whole namespace."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from magnetar.broker.administration.hash_range import (
    bundle_of,
    check_range,
    plan_boundaries,
    split_range,
)
from magnetar.broker.administration.record import check_tenant, load_policies
from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import Conflict, PreconditionFailed, SubscriptionNotFound, TopicNotFound
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_stored_topic
from magnetar.model.policy import BundlesData, LocalPolicies

if TYPE_CHECKING:
    from magnetar.broker.scalable.controller import Controller
    from magnetar.broker.service import Service

_ALGORITHMS: Final = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
_DOMAINS: Final = (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT)


class BundleApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def get(self, namespace: NamespaceName) -> BundlesData:
        await load_policies(self._service, namespace)
        namespaces = self._service.resources.namespaces
        local = await namespaces.get_or_create_local(namespace)
        if local.bundles is None or not local.bundles.boundaries:
            local = await namespaces.update_local(namespace, self._with_bundles)
        assert local.bundles is not None, "just made"
        return local.bundles

    def _with_bundles(self, local: LocalPolicies) -> LocalPolicies:
        """A namespace that says nothing of bundles gets as many as the broker is told to make."""
        if local.bundles is not None and local.bundles.boundaries:
            return local
        boundaries = plan_boundaries(self._service.config.defaultNumberOfNamespaceBundles)
        data = BundlesData(boundaries=boundaries, numBundles=len(boundaries) - 1)
        return replace(local, bundles=data)

    async def boundaries(self, namespace: NamespaceName) -> tuple[str, ...]:
        return (await self.get(namespace)).boundaries or ()

    async def find(self, topic: TopicName) -> str:
        return bundle_of(topic, await self.boundaries(topic.namespace))

    async def topics(
        self, namespace: NamespaceName, bundle: str | None = None
    ) -> Sequence[TopicName]:
        """Existing topics of one bundle, or of all."""
        boundaries = await self.boundaries(namespace)
        wanted = None if bundle is None else check_range(namespace, bundle, boundaries)
        found = [await self._service.list_topics(namespace, domain) for domain in _DOMAINS]
        names = [parse_stored_topic(full) for each in found for full in each]
        return [name for name in names if wanted is None or bundle_of(name, boundaries) == wanted]

    async def _loaded_segments(
        self, namespace: NamespaceName, bundle: str | None
    ) -> Sequence[TopicName]:
        boundaries = await self.boundaries(namespace)
        wanted = None if bundle is None else check_range(namespace, bundle, boundaries)
        return [
            topic.name
            for topic in self._service.topics.values()
            if topic.name.domain is TopicDomain.SEGMENT
            and topic.name.namespace == namespace
            and (wanted is None or bundle_of(topic.name, boundaries) == wanted)
        ]

    async def unload(
        self, namespace: NamespaceName, bundle: str | None = None, *, destination: str | None = None
    ) -> None:
        await check_tenant(self._service, namespace.tenant)
        if destination not in (None, "", self._service.broker_id):
            raise PreconditionFailed(f"There is no broker {destination} to move the bundle to")
        segments = await self._loaded_segments(namespace, bundle)
        for name in [*await self.topics(namespace, bundle), *segments]:
            if name.full in self._service.topics:
                await _unless_gone(self._service.unload_topic(name))

    async def split(
        self, namespace: NamespaceName, bundle: str, *, unload: bool, algorithm: str | None
    ) -> None:
        if algorithm and algorithm not in _ALGORITHMS:
            raise PreconditionFailed(
                "Unsupported namespace bundle split algorithm, supported algorithms are"
                f" [{', '.join(_ALGORITHMS)}]"
            )
        wanted = check_range(namespace, bundle, await self.boundaries(namespace))
        if unload:
            await self.unload(namespace, wanted)

        def change(local: LocalPolicies) -> LocalPolicies:
            present = local.bundles
            assert present is not None and present.boundaries is not None
            boundaries = split_range(
                check_range(namespace, wanted, present.boundaries), present.boundaries
            )
            data = BundlesData(boundaries=boundaries, numBundles=len(boundaries) - 1)
            return replace(local, bundles=data)

        await self._service.resources.namespaces.update_local(namespace, change)

    async def delete(self, namespace: NamespaceName, bundle: str, *, force: bool) -> None:
        topics = await self.topics(namespace, bundle)
        if topics and not force:
            raise Conflict("Cannot delete non empty bundle")
        for name in topics:
            await _unless_gone(self._service.delete_topic(name, force=True))

    async def clear_backlog(
        self,
        namespace: NamespaceName,
        bundle: str | None = None,
        *,
        subscription: str | None = None,
    ) -> None:
        for name in await self.topics(namespace, bundle):
            if not name.is_persistent:
                continue
            topic = await self._service.load_topic(name)
            assert isinstance(topic, PersistentTopic), "the domain says so"
            for each in list(topic.subscriptions.values()):
                if subscription in (None, each.name):
                    await each.skip_all()
        for controller in await self._controllers(namespace, bundle):
            for known in await controller.subscriptions():
                if subscription in (None, known):
                    await controller.clear_backlog(known)

    async def unsubscribe(
        self, namespace: NamespaceName, subscription: str, bundle: str | None = None
    ) -> None:
        await check_tenant(self._service, namespace.tenant)
        for name in await self.topics(namespace, bundle):
            topic = await self._service.load_topic(name)
            if subscription in topic.subscriptions:
                try:
                    await topic.delete_subscription(subscription)
                except SubscriptionNotFound:
                    continue
        for controller in await self._controllers(namespace, bundle):
            if subscription in await controller.subscriptions():
                await controller.delete_subscription(subscription)

    async def _controllers(
        self, namespace: NamespaceName, bundle: str | None
    ) -> Sequence[Controller]:
        """Of all scalable topics. The segments of one lie in many bundles: it belongs to none."""
        if bundle is not None:
            return ()
        topics = await self._service.scalable.list(namespace)
        return [await self._service.scalable.controller(topic) for topic in topics]


async def _unless_gone(step: Awaitable[None]) -> None:
    """What is to be closed or deleted may have gone by itself."""
    try:
        await step
    except TopicNotFound:
        return
