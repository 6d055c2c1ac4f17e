"""Whether the broker can do what it is for: a topic of its own is written and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import StorageFailed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName

if TYPE_CHECKING:
    from magnetar.broker.service import Service

HEARTBEAT_TENANT: Final = "pulsar"


async def check_health(service: Service) -> None:
    """Raise what keeps a message from being stored and read."""
    namespace = NamespaceName(HEARTBEAT_TENANT, service.broker_id)
    name = TopicName(TopicDomain.PERSISTENT, namespace, "healthcheck")
    topic = await service.load_topic(name, create=True)
    assert isinstance(topic, PersistentTopic)
    written = await topic.log.append_entry(f"{service.clock.now_ms()}".encode())
    run = await topic.log.reader.read(written, 1, 1)
    if run is None or run.ledger_id != written.ledger_id:
        raise StorageFailed("The heartbeat message could not be read back")
    topic.last_active_ms = service.clock.now_ms()
