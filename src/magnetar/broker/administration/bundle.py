"""Bundles of a namespace, and what is done to all topics of one or of the whole namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NewType, TypeAlias
from urllib.parse import unquote_plus

from msgspec.structs import replace

from magnetar.broker.administration.port import (
    BoundaryOwners,
    BundleMoves,
    BundleOwners,
    TopicSettings,
)
from magnetar.broker.administration.record import check_tenant, load_policies
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.administration.topic_part import TopicParts
from magnetar.broker.bundle_boundary import load_boundaries
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.scalable.control import Controls
from magnetar.broker.scalable.service import ScalableService
from magnetar.errors import BadRequest, Conflict, PreconditionFailed, TopicNotFound
from magnetar.model.answer.namespace import TopicHashPositions
from magnetar.model.name import NamespaceName, TopicName, parse_stored_topic
from magnetar.model.policy import BundlesData, LocalPolicies
from magnetar.operation.row import DOMAINS
from magnetar.rules.bundle import (
    Bundle,
    bundle_of,
    check_range,
    cut_range,
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
_BY_POSITION: Final = "specified_positions_divide"
_ALGORITHMS: Final = (
    "range_equally_divide",
    "topic_count_equally_divide",
    _BY_POSITION,
    "flow_or_qps_equally_divide",
)


@carries_out("namespaces.bundles")
async def get_bundles(owners: BoundaryOwners, namespace: NamespaceName) -> BundlesData:
    """A namespace that says nothing of bundles gets as many as the configuration says."""
    await load_policies(owners.resources, namespace)
    count = owners.config.defaultNumberOfNamespaceBundles
    namespaces = owners.resources.namespaces
    return make_bundles(await load_boundaries(namespaces, namespace, count=count))


async def boundaries_of(owners: BoundaryOwners, namespace: NamespaceName) -> tuple[str, ...]:
    return (await get_bundles(owners, namespace)).boundaries or ()


async def regular_topics(catalog: TopicCatalog, namespace: NamespaceName) -> Sequence[TopicName]:
    found = [await catalog.list_topics(namespace, domain) for domain in DOMAINS]
    return [parse_stored_topic(full) for names in found for full in names]


async def filter_bundle(
    owners: BoundaryOwners, namespace: NamespaceName, bundle: str | None
) -> Callable[[TopicName], bool]:
    """Which topics lie in a bundle; without one, all of the namespace do."""
    boundaries = await boundaries_of(owners, namespace)
    if bundle is None:
        return lambda topic: True
    wanted = check_range(namespace, bundle, boundaries)
    return lambda topic: bundle_of(topic, boundaries) == wanted


async def find_range(owners: BundleOwners, namespace: NamespaceName, bundle: str) -> str:
    """A range that a client names, or LARGEST: that with most topics."""
    boundaries = await boundaries_of(owners, namespace)
    if bundle != _LARGEST:
        return check_range(namespace, bundle, boundaries)
    ranges = [
        bundle_of(each, boundaries) for each in await regular_topics(owners.catalog, namespace)
    ]
    return max(ranges_of(boundaries), key=ranges.count)


async def find_bundles(
    owners: BoundaryOwners, namespace: NamespaceName, bundle: str | None
) -> tuple[Bundle, ...]:
    """One of a namespace, or all."""
    boundaries = await boundaries_of(owners, namespace)
    if bundle is not None:
        return (Bundle(namespace, check_range(namespace, bundle, boundaries)),)
    return tuple(Bundle(namespace, text) for text in ranges_of(boundaries))


@finds(Regular)
async def find_regular(
    owners: BundleOwners, namespace: NamespaceName, bundle: str | None
) -> Regular:
    is_wanted = await filter_bundle(owners, namespace, bundle)
    return tuple(
        name for name in await regular_topics(owners.catalog, namespace) if is_wanted(name)
    )


@finds(Scalable)
async def find_scalable(
    scalable: ScalableService, namespace: NamespaceName, bundle: str | None
) -> Scalable:
    """The segments of one lie in many bundles: it belongs to none."""
    topics = [] if bundle is not None else await scalable.records.list(namespace)
    return Scalable(tuple(topics))


@carries_out("namespaces.unload", "namespaces.unload_bundle")
async def unload_topics(
    owners: BundleMoves,
    namespace: NamespaceName,
    bundle: str | None = None,
    destination: str | None = None,
) -> None:
    """Those that are loaded, segments too."""
    await check_tenant(owners.resources, namespace.tenant)
    if owners.bundles is not None:
        bundles = await find_bundles(owners, namespace, bundle)
        await owners.bundles.unload_all(bundles, destination)
        return
    if destination not in (None, owners.broker_id):
        raise PreconditionFailed(f"There is no broker {destination} to move the bundle to")
    is_wanted = await filter_bundle(owners, namespace, bundle)
    topics = owners.catalog.topics.values()
    loaded = [topic.name for topic in topics if topic.name.namespace == namespace]
    for name in filter(is_wanted, loaded):
        with suppress(TopicNotFound):
            await owners.catalog.unload_topic(name)


@carries_out("namespaces.split_bundle")
async def split_bundle(
    owners: BundleMoves,
    namespace: NamespaceName,
    bundle: str,
    unload: bool,
    algorithm: str | None,
    positions: list[int | str] | None,
) -> None:
    """`positions` are hashes, which only one of the algorithms asks for."""
    if algorithm and algorithm not in _ALGORITHMS:
        raise PreconditionFailed(
            "Unsupported namespace bundle split algorithm, supported algorithms are"
            f" [{', '.join(_ALGORITHMS)}]"
        )
    wanted = await find_range(owners, namespace, bundle)
    cuts = _parse_positions(positions or ()) if algorithm == _BY_POSITION else ()
    if owners.bundles is not None:
        cuts = cuts or (await _plan_cut(owners.catalog, Bundle(namespace, wanted), algorithm),)
        await owners.bundles.split(Bundle(namespace, wanted), cuts, unload=unload)
        return
    if unload:
        await unload_topics(owners, namespace, wanted)

    def change(local: LocalPolicies) -> LocalPolicies:
        present = local.bundles
        assert present is not None and present.boundaries is not None
        checked = check_range(namespace, wanted, present.boundaries)
        boundaries = (
            cut_range(checked, present.boundaries, cuts)
            if cuts
            else split_range(checked, present.boundaries)
        )
        return replace(local, bundles=make_bundles(boundaries))

    await owners.resources.namespaces.update_local(namespace, change)


@carries_out("namespaces.topic_hash_positions")
async def find_hash_positions(
    namespace: NamespaceName, bundle: str, inside: Regular, topics: tuple[str, ...]
) -> TopicHashPositions:
    """Partitions one by one; a partitioned topic that is named stands for its partitions."""
    named = {unquote_plus(each) for each in topics}
    positions = {
        each.full: hash_of(each)
        for each in inside
        if not named or {each.full, each.base.full} & named
    }
    return {"namespace": str(namespace), "bundle": bundle, "topicHashPositions": positions}


def _parse_positions(positions: Sequence[int | str]) -> tuple[int, ...]:
    """Numbers, as Pulsar's clients send them, or as bundles are written."""
    try:
        return tuple(int(each, 0) if isinstance(each, str) else each for each in positions)
    except ValueError:
        raise BadRequest(
            f"Hashes to cut a bundle at are numbers such as 0x20000000, not {list(positions)}"
        ) from None


async def _plan_cut(catalog: TopicCatalog, bundle: Bundle, algorithm: str | None) -> int:
    """In the middle of the hashes, of the topics, or of what the loaded ones carry."""
    match algorithm:
        case "topic_count_equally_divide":
            names = await regular_topics(catalog, bundle.namespace)
            weights = {hash_of(name): 1.0 for name in names if bundle.holds(name)}
        case "flow_or_qps_equally_divide":
            loaded = (each for each in catalog.topics.values() if bundle.holds(each.name))
            weights = {hash_of(each.name): each.rate_in.bytes_per_s + 1.0 for each in loaded}
        case _ if algorithm == _BY_POSITION:
            raise PreconditionFailed(
                "specified_positions_divide needs the hashes to cut at (splitBoundaries)"
            )
        case _:
            return middle_of(bundle.range)
    return plan_cut(bundle.range, weights)


@carries_out("namespaces.delete_bundle")
async def delete_bundle(catalog: TopicCatalog, topics: Regular, force: bool) -> None:
    if topics and not force:
        raise Conflict("Cannot delete non empty bundle")
    for name in topics:
        with suppress(TopicNotFound):
            await catalog.delete_topic(name, force=True)


@carries_out("namespaces.clear_backlog")
async def clear_backlog(
    parts: TopicParts,
    controls: Controls,
    subscription: str | None,
    topics: Regular,
    scalable: Scalable,
) -> None:
    for name in topics:
        if name.is_persistent:
            await parts.at(name).clear_backlog(subscription)
    for topic in scalable:
        await controls.at(topic).clear_backlog(subscription)


@carries_out("namespaces.unsubscribe")
async def unsubscribe(
    owners: TopicSettings,
    parts: TopicParts,
    namespace: NamespaceName,
    subscription: str,
    bundle: str | None,
) -> None:
    await check_tenant(owners.resources, namespace.tenant)
    for name in await find_regular(owners, namespace, bundle):
        await parts.at(name).unsubscribe(subscription)
    for topic in await find_scalable(owners.scalable, namespace, bundle):
        await owners.scalable.controls.at(topic).unsubscribe(subscription)
