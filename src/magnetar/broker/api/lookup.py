"""Which broker serves a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.broker.api.bundle import BundleApi
from magnetar.broker.api.topic import check_namespace
from magnetar.broker.scalable.guard import check_regular_name
from magnetar.errors import TopicNotFound
from magnetar.model.name import NamespaceName, TopicDomain, TopicName

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class LookupApi:
    def __init__(self, service: Service, bundles: BundleApi) -> None:
        self._service = service
        self._bundles = bundles

    async def find_broker(self, topic: TopicName, listener: str | None) -> Mapping[str, Any]:
        """Of a scalable topic any broker: whether it exists is told by its layout session."""
        await check_namespace(self._service, topic.namespace)
        await check_regular_name(self._service, topic)
        if topic.domain is TopicDomain.PERSISTENT and not await self._may_serve(topic):
            raise TopicNotFound(f"Topic not found {topic}")
        owner = await self._service.ownership.owner_of(topic)
        address = owner.address_of(listener or "")
        # C++ clients insist on brokerUrl, though under TLS they use the other one.
        url = address.url or address.url_tls
        urls = {
            "brokerUrl": url,
            "brokerUrlTls": address.url_tls,
            "httpUrl": owner.web_url,
            "httpUrlTls": owner.web_url_tls,
            "nativeUrl": url,
        }
        told = {name: each for name, each in urls.items() if each}
        return {"brokerId": owner.broker_id, **told, "brokerUrlSsl": ""}

    @property
    def is_shared(self) -> bool:
        return self._service.ownership.is_shared

    async def find_elsewhere(self, namespace: NamespaceName, *, tls: bool) -> str | None:
        """The web address of the broker that owns a namespace, unless it is this one; with TLS for
        those who came with it, who will not send their credentials where all could read them.
        """
        any_topic = TopicName(TopicDomain.PERSISTENT, namespace, "any")
        owner = await self._service.ownership.owner_of(any_topic)
        if owner.is_self:
            return None
        urls = (owner.web_url, owner.web_url_tls)
        return (urls[tls] or urls[not tls]) or None

    async def _may_serve(self, topic: TopicName) -> bool:
        """Whether it exists in any form, or would come to be by attaching."""
        if await self._service.resources.partitioned.get(topic.base) is not None:
            return True
        if await self._service.topic_exists(topic):
            return True
        return await self._service.may_create(topic)

    async def find_bundle(self, topic: TopicName) -> str:
        await check_namespace(self._service, topic.namespace)
        return await self._bundles.find(topic)
