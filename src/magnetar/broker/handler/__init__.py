"""What the broker does for each command a client may send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.connection import Handler
from magnetar.broker.handler.authentication import on_auth_response
from magnetar.broker.handler.consumer import (
    on_ack,
    on_close_consumer,
    on_consumer_stats,
    on_flow,
    on_get_last_message_id,
    on_redeliver,
    on_seek,
    on_subscribe,
    on_unsubscribe,
)
from magnetar.broker.handler.lookup import on_lookup, on_partitioned_metadata
from magnetar.broker.handler.producer import on_close_producer, on_producer
from magnetar.broker.handler.refusal import (
    on_transaction,
    on_watch_coordinators_close,
)
from magnetar.broker.handler.scalable import on_close as on_scalable_close
from magnetar.broker.handler.scalable import on_lookup as on_scalable_lookup
from magnetar.broker.handler.scalable import on_subscribe as on_scalable_subscribe
from magnetar.broker.handler.scalable import on_watch as on_scalable_watch
from magnetar.broker.handler.scalable import on_watch_close as on_scalable_watch_close
from magnetar.broker.handler.schema import on_get_or_create_schema, on_get_schema
from magnetar.broker.handler.topiclist import on_get_topics, on_watch, on_watch_close
from magnetar.wire.command import BaseCommand

HANDLERS: Final[Mapping[int, Handler]] = {
    BaseCommand.PRODUCER: on_producer,
    BaseCommand.CLOSE_PRODUCER: on_close_producer,
    BaseCommand.SUBSCRIBE: on_subscribe,
    BaseCommand.FLOW: on_flow,
    BaseCommand.ACK: on_ack,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: on_redeliver,
    BaseCommand.UNSUBSCRIBE: on_unsubscribe,
    BaseCommand.CLOSE_CONSUMER: on_close_consumer,
    BaseCommand.SEEK: on_seek,
    BaseCommand.GET_LAST_MESSAGE_ID: on_get_last_message_id,
    BaseCommand.CONSUMER_STATS: on_consumer_stats,
    BaseCommand.LOOKUP: on_lookup,
    BaseCommand.PARTITIONED_METADATA: on_partitioned_metadata,
    BaseCommand.GET_TOPICS_OF_NAMESPACE: on_get_topics,
    BaseCommand.WATCH_TOPIC_LIST: on_watch,
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: on_watch_close,
    BaseCommand.GET_SCHEMA: on_get_schema,
    BaseCommand.GET_OR_CREATE_SCHEMA: on_get_or_create_schema,
    BaseCommand.AUTH_RESPONSE: on_auth_response,
    BaseCommand.NEW_TXN: on_transaction,
    BaseCommand.ADD_PARTITION_TO_TXN: on_transaction,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: on_transaction,
    BaseCommand.END_TXN: on_transaction,
    BaseCommand.END_TXN_ON_PARTITION: on_transaction,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: on_transaction,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: on_transaction,
    BaseCommand.WATCH_TC_ASSIGNMENTS: on_transaction,
    BaseCommand.WATCH_TC_ASSIGNMENTS_CLOSE: on_watch_coordinators_close,
    BaseCommand.SCALABLE_TOPIC_LOOKUP: on_scalable_lookup,
    BaseCommand.SCALABLE_TOPIC_CLOSE: on_scalable_close,
    BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: on_scalable_subscribe,
    BaseCommand.WATCH_SCALABLE_TOPICS: on_scalable_watch,
    BaseCommand.WATCH_SCALABLE_TOPICS_CLOSE: on_scalable_watch_close,
}
