"""Names of a namespace's topics: all of them, one page, or some after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from magnetar.broker.administration.bundle import filter_bundle
from magnetar.broker.administration.port import ListOwners
from magnetar.broker.administration.record import load_policies
from magnetar.broker.administration.registry import Listing, carries_out, finds
from magnetar.broker.topic_tree import NAMES_AHEAD
from magnetar.errors import BadRequest
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_stored_topic,
    parse_topic,
)
from magnetar.model.scalable import namespace_path
from magnetar.rules.system import is_system_topic

PAGE_MAX: Final = 100_000
_MODES: Final[Mapping[str, tuple[TopicDomain, ...]]] = {
    "PERSISTENT": (TopicDomain.PERSISTENT,),
    "NON_PERSISTENT": (TopicDomain.NON_PERSISTENT,),
    "ALL": (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT),
    "SCALABLE": (TopicDomain.TOPIC,),
}
"""Scalable topics are listed when asked for: clients that ask for all cannot attach to them."""

_Keep: TypeAlias = Callable[[str], bool]


class Page(NamedTuple):
    """Which of the names of a list are asked for."""

    include_system: bool
    limit: int | None
    after: str | None
    """The last name of the page before, in full or without domain and namespace."""

    @property
    def is_partial(self) -> bool:
        return self.after is not None or self.limit is not None


finds(Page)(Page)


class _Selection(NamedTuple):
    namespace: NamespaceName
    domains: tuple[TopicDomain, ...]
    page: Page
    bundle: str | None = None


@carries_out("topics.list")
async def list_topics(
    owners: ListOwners,
    namespace: NamespaceName,
    domain: TopicDomain,
    bundle: str | None,
    page: Page,
) -> Listing:
    return _make_listing(owners, _Selection(namespace, (domain,), page, bundle))


@carries_out("namespaces.topics")
async def list_namespace_topics(
    owners: ListOwners, namespace: NamespaceName, mode: str, page: Page
) -> Listing:
    domains = _MODES.get(mode.upper())
    if domains is None:
        raise BadRequest(f"mode is one of {', '.join(_MODES)}, not {mode!r}")
    return _make_listing(owners, _Selection(namespace, domains, page))


def _make_listing(owners: ListOwners, selection: _Selection) -> Listing:
    return Listing(partial(_find_names, owners, selection), partial(_runs, owners, selection))


async def _find_names(owners: ListOwners, selection: _Selection) -> Sequence[str]:
    """All names, sorted by domain; a page has the order of the runs."""
    found: list[str] = []
    async for run in _runs(owners, selection):
        found += run
    if selection.page.is_partial:
        return found
    order = {f"{domain.value}:": place for place, domain in enumerate(selection.domains)}
    return sorted(found, key=lambda name: (order[name[: name.index("/")]], name))


async def _runs(owners: ListOwners, selection: _Selection) -> AsyncIterator[Sequence[str]]:
    """Some names after the other, never many at once.

    The order is that of the domains, in one that of the buckets, in one that of the nodes. It
    follows from the names alone, so that a page begins after any name, whether or not it exists.
    """
    await load_policies(owners.resources, selection.namespace)
    after = _parse_after(selection)
    left = PAGE_MAX if selection.page.limit is None else _check_limit(selection.page.limit)
    domains = selection.domains
    if after is not None:
        domains = domains[domains.index(after.domain) :]
    for domain in domains:
        keep = await _keep(owners, selection, domain)
        became = await find_successors(owners.store, selection.namespace, domain)
        start = after if after is not None and after.domain is domain else None
        ahead = min(left, NAMES_AHEAD)
        async for names in _scan(owners, selection.namespace, domain, start, ahead):
            kept = names if keep is None else [name for name in names if keep(name)]
            if became:
                kept = [name for name in kept if not _is_among(name, became)]
            if selection.page.limit is not None:
                kept = kept[:left]
                left -= len(kept)
            if kept:
                yield kept
            if left == 0:
                return


async def find_successors(
    store: MetadataStore, namespace: NamespaceName, domain: TopicDomain
) -> frozenset[str]:
    """The encoded local names of scalable topics. A regular topic that became one of them is not
    listed as what it was, nor are its partitions.
    """
    if domain is not TopicDomain.PERSISTENT:
        return frozenset()
    return frozenset(await store.children(namespace_path(namespace)))


def _is_among(name: str, successors: frozenset[str]) -> bool:
    return parse_stored_topic(name).base.encoded_local in successors


async def _scan(
    owners: ListOwners,
    namespace: NamespaceName,
    domain: TopicDomain,
    after: TopicName | None,
    ahead: int,
) -> AsyncIterator[Sequence[str]]:
    if domain is TopicDomain.PERSISTENT:
        async for names in owners.tree.scan(namespace, domain, after=after, names_ahead=ahead):
            yield names
        return
    if domain is TopicDomain.TOPIC:
        found = [name.full for name in await owners.scalable.records.list(namespace)]
    else:
        found = await owners.catalog.list_topics(namespace, domain)
    yield found if after is None else [name for name in found if name > after.full]


async def _keep(owners: ListOwners, selection: _Selection, domain: TopicDomain) -> _Keep | None:
    """Which names are asked for; None when all are."""
    namespace = selection.namespace
    if selection.bundle and domain is not TopicDomain.TOPIC:
        is_wanted = await filter_bundle(owners, namespace, selection.bundle)

        def in_bundle(name: str) -> bool:
            topic = parse_stored_topic(name)
            is_kept = selection.page.include_system or not is_system_topic(topic)
            return is_kept and is_wanted(topic)

        return in_bundle
    if selection.page.include_system or domain is TopicDomain.TOPIC:
        return None
    if is_system_topic(TopicName(domain, namespace, "any")):
        return lambda name: False
    # Few names hold what every system topic has in its name; only those are looked at.
    return lambda name: "__" not in name or not is_system_topic(parse_stored_topic(name))


@carries_out("topics.count")
async def count_topics(owners: ListOwners, namespace: NamespaceName) -> Mapping[str, int]:
    await load_policies(owners.resources, namespace)
    loaded = await owners.catalog.list_topics(namespace, TopicDomain.NON_PERSISTENT)
    scalable = await owners.store.count_children(namespace_path(namespace))
    persistent = await owners.tree.count(namespace, TopicDomain.PERSISTENT)
    return {
        TopicDomain.PERSISTENT.value: persistent,
        TopicDomain.NON_PERSISTENT.value: len(loaded),
        TopicDomain.TOPIC.value: scalable,
    }


def _check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise BadRequest(f"limit is from 1 to {PAGE_MAX}, not {limit}")
    return limit


def _parse_after(selection: _Selection) -> TopicName | None:
    if selection.page.after is None:
        return None
    if "://" not in selection.page.after:
        return TopicName(selection.domains[0], selection.namespace, selection.page.after)
    topic = parse_topic(selection.page.after)
    if topic.namespace != selection.namespace or topic.domain not in selection.domains:
        raise BadRequest(f"after is not the name of a topic that is listed here: {topic}")
    return topic
