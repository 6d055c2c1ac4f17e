"""How many more topics a namespace may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.errors import PreconditionFailed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Policies
from magnetar.model.scalable import namespace_path
from magnetar.rules.system import SYSTEM_TOPICS

if TYPE_CHECKING:
    from magnetar.broker.service import Service


async def check_room(
    service: Service, namespace: NamespaceName, policies: Policies, *, more: int = 1
) -> None:
    """Refuse `more` topics above the namespace's limit, else the broker's.

    Partitions count singly, the broker's own topics not at all. Nothing is listed for it; two
    brokers that make topics at the same moment may pass together.
    """
    limit = policies.max_topics_per_namespace
    if limit is None:
        limit = service.config.maxTopicsPerNamespace
    if limit <= 0:
        return
    present = await service.tree.count(namespace, TopicDomain.PERSISTENT)
    present += await service.store.count_children(namespace_path(namespace))
    if present + more > limit:
        present -= await _count_system_topics(service, namespace)
    if present + more > limit:
        raise PreconditionFailed("Exceed maximum number of topics in namespace.")


async def _count_system_topics(service: Service, namespace: NamespaceName) -> int:
    """Those that exist of the few known names: each is asked for at its own place."""
    count = 0
    for local in sorted(SYSTEM_TOPICS):
        name = TopicName(TopicDomain.PERSISTENT, namespace, local)
        partitioned = await service.resources.partitioned.get(name)
        partitions = 0 if partitioned is None else partitioned.partitions
        for each in [name.partition(index) for index in range(partitions)] or [name]:
            count += await service.tree.exists(each)
    return count
