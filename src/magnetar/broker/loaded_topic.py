"""Non-persistent topics of all brokers: only the broker that serves one knows of it."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.other_broker import OtherBrokers
from magnetar.model.name import NamespaceName, TopicDomain, parse_namespace


class LoadedTopics:
    """Of one broker."""

    def __init__(self, catalog: TopicCatalog) -> None:
        self._catalog = catalog

    async def non_persistent(self, namespace: str) -> tuple[str, ...]:
        wanted = parse_namespace(namespace)
        return tuple(self._catalog.list_loaded(wanted, TopicDomain.NON_PERSISTENT))


class TopicsElsewhere:
    def __init__(self, others: OtherBrokers) -> None:
        self._others = others

    def offer(self, calls: BrokerCalls, catalog: TopicCatalog) -> None:
        """Answer the others."""
        self._here = LoadedTopics(catalog)
        calls.offer(LoadedTopics, lambda topic: self._here)

    async def non_persistent(self, namespace: NamespaceName) -> Sequence[str]:
        found = await self._others.ask(LoadedTopics.non_persistent, self._here, str(namespace))
        return [name for names in found.values() for name in names or ()]
