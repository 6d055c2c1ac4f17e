"""Bundles of a namespace, and what is done to all topics of one or of the whole namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NewType, TypeAlias

from msgspec.structs import replace

from magnetar.broker.administration.record import check_tenant, load_policies
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.administration.topic_part import TopicPart, ask_part
from magnetar.broker.bundle_boundary import load_boundaries
from magnetar.broker.scalable.control import Control
from magnetar.broker.service import Service
from magnetar.errors import Conflict, PreconditionFailed, TopicNotFound
from magnetar.model.name import NamespaceName, TopicName, parse_stored_topic
from magnetar.model.policy import BundlesData, LocalPolicies
from magnetar.operation.row import DOMAINS
from magnetar.rules.bundle import (
    Bundle,
    bundle_of,
    check_range,
    hash_of,
    make_bundles,
    middle_of,
    plan_cut,
    ranges_of,
    split_range,
)

Regular: TypeAlias = tuple[TopicName, ...]
"""The regular topics of a namespace, or of one bundle."""
Scalable = NewType("Scalable", tuple[TopicName, ...])
"""The scalable topics of a namespace; none of one bundle."""
_LARGEST: Final = "LARGEST"
_ALGORITHMS: Final = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)


@carries_out("namespaces.bundles")
async def get_bundles(service: Service, namespace: NamespaceName) -> BundlesData:
    """A namespace that says nothing of bundles gets as many as the configuration says."""
    await load_policies(service, namespace)
    count = service.config.defaultNumberOfNamespaceBundles
    namespaces = service.resources.namespaces
    return make_bundles(await load_boundaries(namespaces, namespace, count=count))


async def boundaries_of(service: Service, namespace: NamespaceName) -> tuple[str, ...]:
    return (await get_bundles(service, namespace)).boundaries or ()


async def regular_topics(service: Service, namespace: NamespaceName) -> Sequence[TopicName]:
    found = [await service.catalog.list_topics(namespace, domain) for domain in DOMAINS]
    return [parse_stored_topic(full) for names in found for full in names]


async def filter_bundle(
    service: Service, namespace: NamespaceName, bundle: str | None
) -> Callable[[TopicName], bool]:
    """Which topics lie in a bundle; without one, all of the namespace do."""
    boundaries = await boundaries_of(service, namespace)
    if bundle is None:
        return lambda topic: True
    wanted = check_range(namespace, bundle, boundaries)
    return lambda topic: bundle_of(topic, boundaries) == wanted


async def find_range(service: Service, namespace: NamespaceName, bundle: str) -> str:
    """A range that a client names, or LARGEST: that with most topics."""
    boundaries = await boundaries_of(service, namespace)
    if bundle != _LARGEST:
        return check_range(namespace, bundle, boundaries)
    ranges = [bundle_of(each, boundaries) for each in await regular_topics(service, namespace)]
    return max(ranges_of(boundaries), key=ranges.count)


async def find_bundles(
    service: Service, namespace: NamespaceName, bundle: str | None
) -> tuple[Bundle, ...]:
    """One of a namespace, or all."""
    boundaries = await boundaries_of(service, namespace)
    if bundle is not None:
        return (Bundle(namespace, check_range(namespace, bundle, boundaries)),)
    return tuple(Bundle(namespace, text) for text in ranges_of(boundaries))


@finds(Regular)
async def find_regular(service: Service, namespace: NamespaceName, bundle: str | None) -> Regular:
    is_wanted = await filter_bundle(service, namespace, bundle)
    return tuple(name for name in await regular_topics(service, namespace) if is_wanted(name))


@finds(Scalable)
async def find_scalable(service: Service, namespace: NamespaceName, bundle: str | None) -> Scalable:
    """The segments of one lie in many bundles: it belongs to none."""
    topics = [] if bundle is not None else await service.scalable.records.list(namespace)
    return Scalable(tuple(topics))


@carries_out("namespaces.unload", "namespaces.unload_bundle")
async def unload_topics(
    service: Service,
    namespace: NamespaceName,
    bundle: str | None = None,
    destination: str | None = None,
) -> None:
    """Those that are loaded, segments too."""
    await check_tenant(service, namespace.tenant)
    if service.bundles is not None:
        bundles = await find_bundles(service, namespace, bundle)
        await service.bundles.unload_all(bundles, destination)
        return
    if destination not in (None, service.broker_id):
        raise PreconditionFailed(f"There is no broker {destination} to move the bundle to")
    is_wanted = await filter_bundle(service, namespace, bundle)
    topics = service.catalog.topics.values()
    loaded = [topic.name for topic in topics if topic.name.namespace == namespace]
    for name in filter(is_wanted, loaded):
        with suppress(TopicNotFound):
            await service.catalog.unload_topic(name)


@carries_out("namespaces.split_bundle")
async def split_bundle(
    service: Service, namespace: NamespaceName, bundle: str, unload: bool, algorithm: str | None
) -> None:
    if algorithm and algorithm not in _ALGORITHMS:
        raise PreconditionFailed(
            "Unsupported namespace bundle split algorithm, supported algorithms are"
            f" [{', '.join(_ALGORITHMS)}]"
        )
    wanted = await find_range(service, namespace, bundle)
    if service.bundles is not None:
        cuts = (await _plan_cut(service, Bundle(namespace, wanted), algorithm),)
        await service.bundles.split(Bundle(namespace, wanted), cuts, unload=unload)
        return
    if unload:
        await unload_topics(service, namespace, wanted)

    def change(local: LocalPolicies) -> LocalPolicies:
        present = local.bundles
        assert present is not None and present.boundaries is not None
        boundaries = split_range(
            check_range(namespace, wanted, present.boundaries), present.boundaries
        )
        return replace(local, bundles=make_bundles(boundaries))

    await service.resources.namespaces.update_local(namespace, change)


async def _plan_cut(service: Service, bundle: Bundle, algorithm: str | None) -> int:
    """In the middle of the hashes, of the topics, or of what the loaded ones carry."""
    match algorithm:
        case "topic_count_equally_divide":
            names = await regular_topics(service, bundle.namespace)
            weights = {hash_of(name): 1.0 for name in names if bundle.holds(name)}
        case "flow_or_qps_equally_divide":
            loaded = (each for each in service.catalog.topics.values() if bundle.holds(each.name))
            weights = {hash_of(each.name): each.rate_in.bytes_per_s + 1.0 for each in loaded}
        case "specified_positions_divide":
            raise PreconditionFailed(
                "specified_positions_divide needs the hashes to cut at (splitBoundaries)"
            )
        case _:
            return middle_of(bundle.range)
    return plan_cut(bundle.range, weights)


@carries_out("namespaces.delete_bundle")
async def delete_bundle(service: Service, topics: Regular, force: bool) -> None:
    if topics and not force:
        raise Conflict("Cannot delete non empty bundle")
    for name in topics:
        with suppress(TopicNotFound):
            await service.catalog.delete_topic(name, force=True)


@carries_out("namespaces.clear_backlog")
async def clear_backlog(
    service: Service, subscription: str | None, topics: Regular, scalable: Scalable
) -> None:
    for name in topics:
        if name.is_persistent:
            await ask_part(service, name, TopicPart.clear_backlog, subscription)
    for topic in scalable:
        await service.scalable.controls.ask(topic, Control.clear_backlog, subscription)


@carries_out("namespaces.unsubscribe")
async def unsubscribe(
    service: Service, namespace: NamespaceName, subscription: str, bundle: str | None
) -> None:
    await check_tenant(service, namespace.tenant)
    for name in await find_regular(service, namespace, bundle):
        await ask_part(service, name, TopicPart.unsubscribe, subscription)
    for topic in await find_scalable(service, namespace, bundle):
        await service.scalable.controls.ask(topic, Control.unsubscribe, subscription)
