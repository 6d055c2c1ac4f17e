"""A durable subscription that only keeps messages from being deleted: it reads nothing."""

from __future__ import annotations

from magnetar.client.error import NotFoundError
from magnetar.client.message_id import MessageId
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, InitialPosition
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicDomain, TopicName


async def move_hold(
    session: Session, topic: TopicName, subscription: str, through: MessageId | None
) -> bool:
    """Make the subscription on one topic, partition or segment if it is not there, and let go of
    everything up to a message. False when there is no such topic.
    """
    settings = ConsumerSettings(
        subscription=subscription,
        initial_position=InitialPosition.EARLIEST,
        receiver_queue_size=1,
        ack_receipts=True,
        create_topic=False,
        properties={} if topic.domain is TopicDomain.SEGMENT else {MANAGED: "true"},
    )
    consumer = TopicConsumer(session, topic, settings, outlet=None)
    consumer.pause()
    try:
        await consumer.open()
    except NotFoundError:
        return False
    try:
        if through is not None:
            consumer.acknowledge_cumulative(through)
            await consumer.acknowledger.confirm()
    finally:
        await consumer.close()
    return True
