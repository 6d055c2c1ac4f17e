"""Clients of a broker, attached before the script begins."""

from __future__ import annotations

from typing import Any, Final

from magnetar.wire.command import (
    BaseCommand,
    CommandScalableTopicSubscribe,
    CommandSubscribe,
    ScalableConsumerType,
)
from tests.unit.admin.assembly import V2, Admin
from tests.unit.broker.broker_place import Peer, until

SETTINGS: Final[dict[str, Any]] = {"activeConsumerFailoverDelayTimeMillis": 0}
"""A broker's, for what follows to be there when the script begins: no consumer waits for its
messages.
"""


async def attach_clients(admin: Admin) -> None:
    """Of each kind of topic one with a producer and consumers; some messages are acknowledged."""
    root = f"{V2}/persistent/public/default"
    assert (await admin.put(f"{root}/parts/partitions", 2)).status == 204
    wide = f"{V2}/scalable/public/default/wide"
    assert (await admin.put(f"{wide}?numInitialSegments=2")).status == 204
    assert (await admin.put(f"{wide}/subscriptions/s")).status == 204
    peer = Peer(admin.service)
    one = "persistent://public/default/one"
    await peer.produce(one, producer_name="p1")
    await peer.send(5)
    kinds = {
        "shared": CommandSubscribe.Shared,
        "exclusive": CommandSubscribe.Exclusive,
        "failover": CommandSubscribe.Failover,
        "keys": CommandSubscribe.Key_Shared,
    }
    for consumer_id, (name, kind) in enumerate(kinds.items()):
        await peer.subscribe(one, name, kind, consumer_id=consumer_id, permits=3)
    await until(lambda: all(len(peer.messages(each)) == 3 for each in range(len(kinds))))
    peer.ack(0, *peer.messages(0)[:2])
    part = "persistent://public/default/parts-partition-0"
    await peer.produce(part, producer_id=2, producer_name="p2")
    await peer.subscribe(part, "s", CommandSubscribe.Shared, consumer_id=8, permits=0)
    loose = "non-persistent://public/default/loose"
    await peer.produce(loose, producer_id=3, producer_name="p3")
    await peer.subscribe(loose, "s", CommandSubscribe.Shared, consumer_id=9)
    await admin.publish("segment://public/default/wide/0000-7fff-0", b"hello")
    request = CommandScalableTopicSubscribe(
        topic="topic://public/default/wide",
        subscription="s",
        consumer_name="c",
        consumer_id=10,
        consumer_type=ScalableConsumerType.STREAM,
    )
    answer = await peer.ask(request, BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
    assert not answer.scalableTopicSubscribeResponse.HasField("error")
