"""The health check: a topic of the broker's own is written and read back."""

from __future__ import annotations

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import StorageFailed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.rules.system import SYSTEM_TENANT
from magnetar.runtime.clock import Clock


async def check_health(catalog: TopicCatalog, broker_id: str, clock: Clock) -> None:
    """Raise what keeps a message from being stored and read."""
    namespace = NamespaceName(SYSTEM_TENANT, broker_id)
    name = TopicName(TopicDomain.PERSISTENT, namespace, "healthcheck")
    topic = await catalog.load_topic(name, create=True)
    assert isinstance(topic, PersistentTopic)
    written = await topic.log.append_entry(f"{clock.now_ms()}".encode())
    run = await topic.log.reader.read(written, 1, 1)
    if run is None or run.ledger_id != written.ledger_id:
        raise StorageFailed("The heartbeat message could not be read back")
    topic.last_active_ms = clock.now_ms()
