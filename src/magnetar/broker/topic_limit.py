"""The limit of topics per namespace."""

from __future__ import annotations

from magnetar.broker.resource import Resources
from magnetar.broker.topic_tree import TopicTree
from magnetar.errors import PreconditionFailed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Policies
from magnetar.model.scalable import namespace_path
from magnetar.rules.system import SYSTEM_TOPICS
from magnetar.runtime.configuration import Configuration


class TopicLimit:
    """Partitions count singly, the broker's own topics not at all."""

    def __init__(self, config: Configuration, resources: Resources, tree: TopicTree) -> None:
        self._config = config
        self._resources = resources
        self._tree = tree

    async def check(self, namespace: NamespaceName, policies: Policies, *, more: int = 1) -> None:
        """Refuse `more` topics above the namespace's limit, else the broker's.

        Nothing is listed for it; two brokers that make topics at the same moment may pass together.
        """
        limit = policies.max_topics_per_namespace
        if limit is None:
            limit = self._config.maxTopicsPerNamespace
        if limit <= 0:
            return
        present = await self._tree.count(namespace, TopicDomain.PERSISTENT)
        present += await self._resources.local.count_children(namespace_path(namespace))
        if present + more > limit:
            present -= await self._count_system_topics(namespace)
        if present + more > limit:
            raise PreconditionFailed("Exceed maximum number of topics in namespace.")

    async def _count_system_topics(self, namespace: NamespaceName) -> int:
        """Those that exist of the few known names: each is asked for at its own place."""
        count = 0
        for local in sorted(SYSTEM_TOPICS):
            name = TopicName(TopicDomain.PERSISTENT, namespace, local)
            partitioned = await self._resources.partitioned.get(name)
            partitions = 0 if partitioned is None else partitioned.partitions
            for each in [name.partition(index) for index in range(partitions)] or [name]:
                count += await self._tree.exists(each)
        return count
