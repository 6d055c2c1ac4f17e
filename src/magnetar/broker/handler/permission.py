"""What each command of the binary protocol needs of the one who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.authorization import Authorization
from magnetar.broker.connection import Connection
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.permission import (
    ATTACHED,
    AUTHENTICATED,
    NAMESPACE_READ,
    OPEN,
    TOPIC_CONSUME,
    TOPIC_PRODUCE,
    TOPIC_READ,
    Need,
    Target,
)
from magnetar.wire.command import BaseCommand

NEEDS: Final[Mapping[int, Need]] = {
    BaseCommand.CONNECT: OPEN,
    BaseCommand.AUTH_RESPONSE: OPEN,
    BaseCommand.PING: AUTHENTICATED,
    BaseCommand.PONG: AUTHENTICATED,
    BaseCommand.LOOKUP: TOPIC_READ,
    BaseCommand.PARTITIONED_METADATA: TOPIC_READ,
    BaseCommand.GET_TOPICS_OF_NAMESPACE: NAMESPACE_READ,
    BaseCommand.WATCH_TOPIC_LIST: NAMESPACE_READ,
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: ATTACHED,
    BaseCommand.GET_SCHEMA: TOPIC_READ,
    BaseCommand.GET_OR_CREATE_SCHEMA: TOPIC_PRODUCE,
    BaseCommand.PRODUCER: TOPIC_PRODUCE,
    BaseCommand.SEND: ATTACHED,
    BaseCommand.CLOSE_PRODUCER: ATTACHED,
    BaseCommand.SUBSCRIBE: TOPIC_CONSUME,
    BaseCommand.FLOW: ATTACHED,
    BaseCommand.ACK: ATTACHED,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: ATTACHED,
    BaseCommand.UNSUBSCRIBE: ATTACHED,
    BaseCommand.CLOSE_CONSUMER: ATTACHED,
    BaseCommand.SEEK: ATTACHED,
    BaseCommand.GET_LAST_MESSAGE_ID: ATTACHED,
    BaseCommand.CONSUMER_STATS: ATTACHED,
    BaseCommand.SCALABLE_TOPIC_LOOKUP: TOPIC_READ,
    BaseCommand.SCALABLE_TOPIC_CLOSE: ATTACHED,
    BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: TOPIC_CONSUME,
    BaseCommand.WATCH_SCALABLE_TOPICS: NAMESPACE_READ,
    BaseCommand.WATCH_SCALABLE_TOPICS_CLOSE: ATTACHED,
    # A transaction belongs to the role that began it. What is added to it must be allowed too.
    BaseCommand.NEW_TXN: AUTHENTICATED,
    BaseCommand.ADD_PARTITION_TO_TXN: AUTHENTICATED,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: AUTHENTICATED,
    BaseCommand.END_TXN: AUTHENTICATED,
    BaseCommand.END_TXN_ON_PARTITION: AUTHENTICATED,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: AUTHENTICATED,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: AUTHENTICATED,
    BaseCommand.WATCH_TC_ASSIGNMENTS: AUTHENTICATED,
    BaseCommand.WATCH_TC_ASSIGNMENTS_CLOSE: AUTHENTICATED,
}
"""A connection that has not said who it is may send nothing but what is open."""


class CommandPermissions:
    """Decides which commands a connection's caller may send."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    async def allows(self, connection: Connection, need: Need) -> bool:
        """Whether the caller meets a need that is about no topic."""
        return await self._authorization.decide(connection.caller, need, Target()) is None

    async def check(
        self,
        connection: Connection,
        kind: int,
        *,
        topic: TopicName | None = None,
        namespace: NamespaceName | None = None,
        subscription: str | None = None,
    ) -> None:
        """Raise Unauthorized or Forbidden unless the caller may send such a command."""
        if self._authorization.is_enabled:
            target = Target(topic=topic, namespace=namespace, subscription=subscription or None)
            await self._authorization.check(connection.caller, NEEDS[kind], target)
