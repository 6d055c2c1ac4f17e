"""What the broker does for each command a client may send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from magnetar.broker import port
from magnetar.broker.client_limit import RequestLimit
from magnetar.broker.connection import Handler
from magnetar.broker.handler.authentication import on_auth_response
from magnetar.broker.handler.consumer import (
    ConsumerCommands,
    on_ack,
    on_consumer_stats,
    on_redeliver,
)
from magnetar.broker.handler.lookup import LookupCommands
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.handler.producer import ProducerCommands
from magnetar.broker.handler.scalable import ScalableCommands, leave_group
from magnetar.broker.handler.scalable import on_close as on_scalable_close
from magnetar.broker.handler.scalable import on_watch_close as on_scalable_watch_close
from magnetar.broker.handler.schema import SchemaCommands
from magnetar.broker.handler.topic import TopicSource
from magnetar.broker.handler.topiclist import TopicListCommands, on_watch_close
from magnetar.broker.handler.transaction import TransactionCommands
from magnetar.broker.topiclist import TopicLists
from magnetar.wire.command import BaseCommand


class CommandOwners(
    port.HasAuthorization,
    port.HasCatalog,
    port.HasClock,
    port.HasConfiguration,
    port.HasLimits,
    port.HasOwnership,
    port.HasScalable,
    port.HasSchemas,
    port.HasTransactions,
    port.HasTree,
    TopicSource,
    Protocol,
):
    """Port of what clients' commands are carried out by."""

    @property
    def lookup_limit(self) -> RequestLimit: ...
    @property
    def topic_lists(self) -> TopicLists: ...

    def next_producer_name(self) -> str: ...


def make_handlers(owners: CommandOwners) -> Mapping[int, Handler]:
    """The handlers of a broker, each with the few parts of it that it needs."""
    permissions, plane = CommandPermissions(owners.authorization), owners.scalable
    producers = ProducerCommands(
        permissions,
        owners,
        owners.schemas,
        owners.clock,
        check_name=plane.guard.check_producer,
        adopt_subscription=plane.reports.adopt_subscription,
        next_name=owners.next_producer_name,
    )
    consumers = ConsumerCommands(
        permissions,
        owners,
        owners.schemas,
        owners.clock,
        check_name=plane.guard.check_consumer,
        attach=plane.readers.attach,
        on_left=plane.readers.on_closed,
        leave_group=leave_group,
    )
    lookups = LookupCommands(
        permissions,
        owners.lookup_limit,
        owners.ownership,
        owners.catalog,
        check_lookup=plane.guard.check_lookup,
        check_partitions=plane.guard.check_partitions,
    )
    topic_lists = TopicListCommands(
        permissions, owners.catalog, owners.topic_lists, owners.store, owners.config
    )
    schemas = SchemaCommands(permissions, owners.schemas, owners.catalog)
    scalable = ScalableCommands(permissions, owners.config, plane)
    transactions = TransactionCommands(
        permissions, owners.config, owners.limits, owners.transactions
    )
    return {
        BaseCommand.PRODUCER: producers.on_producer,
        BaseCommand.CLOSE_PRODUCER: producers.on_close_producer,
        BaseCommand.SUBSCRIBE: consumers.on_subscribe,
        BaseCommand.FLOW: consumers.on_flow,
        BaseCommand.ACK: on_ack,
        BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: on_redeliver,
        BaseCommand.UNSUBSCRIBE: consumers.on_unsubscribe,
        BaseCommand.CLOSE_CONSUMER: consumers.on_close_consumer,
        BaseCommand.SEEK: consumers.on_seek,
        BaseCommand.GET_LAST_MESSAGE_ID: consumers.on_get_last_message_id,
        BaseCommand.CONSUMER_STATS: on_consumer_stats,
        BaseCommand.LOOKUP: lookups.on_lookup,
        BaseCommand.PARTITIONED_METADATA: lookups.on_partitioned_metadata,
        BaseCommand.GET_TOPICS_OF_NAMESPACE: topic_lists.on_get_topics,
        BaseCommand.WATCH_TOPIC_LIST: topic_lists.on_watch,
        BaseCommand.WATCH_TOPIC_LIST_CLOSE: on_watch_close,
        BaseCommand.GET_SCHEMA: schemas.on_get_schema,
        BaseCommand.GET_OR_CREATE_SCHEMA: schemas.on_get_or_create_schema,
        BaseCommand.AUTH_RESPONSE: on_auth_response,
        BaseCommand.NEW_TXN: transactions.on_new,
        BaseCommand.ADD_PARTITION_TO_TXN: transactions.on_add_partitions,
        BaseCommand.ADD_SUBSCRIPTION_TO_TXN: transactions.on_add_subscriptions,
        BaseCommand.END_TXN: transactions.on_end,
        BaseCommand.END_TXN_ON_PARTITION: transactions.on_end_partition,
        BaseCommand.END_TXN_ON_SUBSCRIPTION: transactions.on_end_subscription,
        BaseCommand.TC_CLIENT_CONNECT_REQUEST: transactions.on_connect,
        BaseCommand.WATCH_TC_ASSIGNMENTS: transactions.on_watch,
        BaseCommand.WATCH_TC_ASSIGNMENTS_CLOSE: transactions.on_watch_close,
        BaseCommand.SCALABLE_TOPIC_LOOKUP: scalable.on_lookup,
        BaseCommand.SCALABLE_TOPIC_CLOSE: on_scalable_close,
        BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: scalable.on_subscribe,
        BaseCommand.WATCH_SCALABLE_TOPICS: scalable.on_watch,
        BaseCommand.WATCH_SCALABLE_TOPICS_CLOSE: on_scalable_watch_close,
    }
