"""Whether the broker can do what it is for: a topic of its own is written and read back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import BrokerError, StorageFailed
from magnetar.ledger.chain import Chain
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import Position

if TYPE_CHECKING:
    from magnetar.broker.service import Service

HEARTBEAT_TENANT: Final = "pulsar"


async def check_health(service: Service) -> None:
    """Raise what keeps a message from being stored and read."""
    namespace = NamespaceName(HEARTBEAT_TENANT, service.broker_id)
    name = TopicName(TopicDomain.PERSISTENT, namespace, "healthcheck")
    topic = await service.load_topic(name, create=True)
    assert isinstance(topic, PersistentTopic)
    written = await append_entry(topic.chain, f"{service.clock.now_ms()}".encode())
    run = await topic.chain.read(written, 1, 1)
    if run is None or run.ledger_id != written.ledger_id:
        raise StorageFailed("The heartbeat message could not be read back")
    topic.last_active_ms = service.clock.now_ms()


async def append_entry(chain: Chain, entry: bytes) -> Position:
    """Append one entry of the broker's own and wait until it is durable."""
    done: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def on_durable(first: Position | None, failure: BrokerError | None) -> None:
        if done.done():
            return  # who asked did not wait for the answer
        if first is not None:
            done.set_result(first)
        else:
            assert failure is not None
            done.set_exception(failure)

    chain.append([entry], [1], on_durable)
    return await done
