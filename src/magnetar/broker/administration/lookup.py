"""Which broker serves a topic."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.broker.administration.bundle import boundaries_of, find_range
from magnetar.broker.administration.port import (
    BoundaryOwners,
    BundleMoves,
    LookupOwners,
    TopicOwners,
)
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.administration.topic import check_namespace
from magnetar.broker.ownership import Owner
from magnetar.errors import TopicNotFound
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.rules.bundle import Bundle, bundle_of


@carries_out("topics.lookup")
async def find_broker(
    owners: LookupOwners, topic: TopicName, listener_name: str | None = None
) -> Mapping[str, str]:
    """Of a scalable topic any broker: its layout session finds out whether it exists."""
    await check_namespace(owners.resources, topic.namespace)
    await owners.scalable.guard.check_regular_name(topic)
    if topic.domain is TopicDomain.PERSISTENT and not await _may_serve(owners, topic):
        raise TopicNotFound(f"Topic not found {topic}")
    owner = await owners.ownership.owner_of(topic)
    address = owner.address_of(listener_name or "")
    # C++ clients insist on brokerUrl, though under TLS they use the other one.
    url = address.url or address.url_tls
    urls = {
        "brokerUrl": url,
        "brokerUrlTls": address.url_tls,
        "httpUrl": owner.web_url,
        "httpUrlTls": owner.web_url_tls,
        "nativeUrl": url,
    }
    known = {name: each for name, each in urls.items() if each}
    return {"brokerId": owner.broker_id, **known, "brokerUrlSsl": ""}


async def _may_serve(owners: TopicOwners, topic: TopicName) -> bool:
    """Whether it exists in any form, or would come to be by attaching."""
    if await owners.resources.partitioned.get(topic.base) is not None:
        return True
    return await owners.catalog.topic_exists(topic) or await owners.catalog.may_create(topic)


@carries_out("topics.bundle_range")
async def find_bundle(owners: BoundaryOwners, topic: TopicName) -> str:
    await check_namespace(owners.resources, topic.namespace)
    return bundle_of(topic, await boundaries_of(owners, topic.namespace))


async def find_namespace_owner(
    owners: BundleMoves, namespace: NamespaceName, bundle: str | None
) -> Owner:
    """The broker that can do something with the topics of a namespace, or of one bundle: where
    bundles have owners of their own, this one sees to it that the others do their part.
    """
    if owners.bundles is None:
        any_topic = TopicName(TopicDomain.PERSISTENT, namespace, "any")
        return await owners.ownership.owner_of(any_topic)
    if bundle is None or await owners.resources.namespaces.get(namespace) is None:
        return owners.owner
    wanted = await find_range(owners, namespace, bundle)
    owner = await owners.bundles.ownership.find_owner(Bundle(namespace, wanted))
    return owners.owner if owner is None else owner


def web_url_of(owner: Owner, *, tls: bool) -> str | None:
    """The web address of a broker, unless it is this one; with TLS for callers that came with it,
    who will not send their credentials where all could read them.
    """
    if owner.is_self:
        return None
    urls = (owner.web_url, owner.web_url_tls)
    return (urls[tls] or urls[not tls]) or None
