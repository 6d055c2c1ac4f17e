"""Scalable topics: layouts and namespaces to watch, consumers that are assigned segments."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.scalable.session import LayoutSession, encode_refusal
from magnetar.broker.scalable.watch import NamespaceWatcher
from magnetar.errors import (
    BadRequest,
    BrokerError,
    Forbidden,
    InvalidName,
    NotAllowed,
    NotScalable,
    ServiceNotReady,
    SubscriptionNameReserved,
    TooManyRequests,
    TopicNotFound,
    Unauthorized,
    WireCode,
    fault_of,
)
from magnetar.model.name import TopicDomain, TopicName, parse_namespace, parse_topic
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import scalable_name
from magnetar.model.subscription import check_subscription_name
from magnetar.runtime.configuration import Configuration
from magnetar.wire.command import (
    BaseCommand,
    CommandScalableTopicLookup,
    CommandScalableTopicSubscribe,
    CommandScalableTopicSubscribeResponse,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsUpdate,
    ServerError,
    make_command,
)
from magnetar.wire.layout import decode_consumer_kind, encode_assignment

_NAMED = (
    NotAllowed,
    NotScalable,
    InvalidName,
    ServiceNotReady,
    Unauthorized,
    Forbidden,
    TooManyRequests,
)
"""Refusals that clients tell apart; every other one is unknown to them."""


def _code_of(refusal: BrokerError) -> str:
    if isinstance(refusal, SubscriptionNameReserved):
        return ServerError.Name(WireCode.NOT_ALLOWED)
    code = fault_of(refusal).code if isinstance(refusal, _NAMED) else WireCode.UNKNOWN
    return ServerError.Name(code)


@dataclass(frozen=True)
class ScalableCommands:
    permissions: CommandPermissions
    config: Configuration
    plane: ScalableService

    def _check_enabled(self) -> None:
        if not self.config.scalableTopicsEnabled:
            raise NotAllowed("Scalable topics are switched off on this broker")

    # ------------------------------------------------------------------ layouts

    def on_lookup(self, connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
        request = command.scalableTopicLookup
        try:
            return self._open_layout(connection, request)
        except BrokerError as refusal:
            connection.send_command(make_command(encode_refusal(request.session_id, refusal)))
            return None

    def _open_layout(
        self, connection: Connection, request: CommandScalableTopicLookup
    ) -> Awaitable[None] | None:
        self._check_enabled()
        name = parse_topic(request.topic)
        if name.domain is TopicDomain.NON_PERSISTENT:
            raise NotAllowed(f"{name} keeps nothing and has no layout")
        registry = connection.attached(ConnectionRegistry)
        previous = registry.layouts.pop(request.session_id, None)
        if previous is not None:
            previous.close()
        registry.check_room()
        session = self.plane.open_layout(connection, request.session_id, name)
        registry.layouts[session.id] = session
        wants_creation = request.create_if_missing
        if not request.HasField("create_if_missing"):
            # The first release does not know the field, and looks up again what was deleted
            # under it.
            deletions = self.plane.deletions
            wants_creation = not deletions.is_recent(scalable_name(name))
        return self._start_layout(connection, session, name, wants_creation=wants_creation)

    async def _start_layout(
        self,
        connection: Connection,
        session: LayoutSession,
        name: TopicName,
        *,
        wants_creation: bool,
    ) -> None:
        try:
            await self.permissions.check(connection, BaseCommand.SCALABLE_TOPIC_LOOKUP, topic=name)
        except BrokerError as refusal:
            session.refuse(refusal)
        else:
            await session.start(create_if_missing=wants_creation)

    # ------------------------------------------------------------------ consumers

    def on_subscribe(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._subscribe(connection, command.scalableTopicSubscribe)

    async def _subscribe(
        self, connection: Connection, request: CommandScalableTopicSubscribe
    ) -> None:
        registry = connection.attached(ConnectionRegistry)
        try:
            self._check_enabled()
            name = parse_topic(request.topic)
            if not request.subscription or not request.consumer_name:
                raise BadRequest(
                    "A consumer registers with its own name and that of a subscription"
                )
            check_subscription_name(request.subscription)
            kind = decode_consumer_kind(request.consumer_type)
            await self._authorize(connection, name, request)
            registry.check_room()
            coordinator = await self._find_coordinator(name, request.subscription, kind)
            await self._authorize(connection, name, request)  # finding it may have taken long
            registry.groups[request.consumer_id] = coordinator
            assignment = await coordinator.register(
                request.consumer_name,
                kind,
                request.consumer_id,
                connection,
            )
            response = CommandScalableTopicSubscribeResponse(
                request_id=request.request_id, assignment=encode_assignment(assignment)
            )
        except BrokerError as refusal:
            registry.groups.pop(request.consumer_id, None)
            response = CommandScalableTopicSubscribeResponse(
                request_id=request.request_id, error=_code_of(refusal), message=refusal.sentence
            )
        connection.send_command(make_command(response))

    async def _authorize(
        self, connection: Connection, name: TopicName, request: CommandScalableTopicSubscribe
    ) -> None:
        kind, subscription = BaseCommand.SCALABLE_TOPIC_SUBSCRIBE, request.subscription
        await self.permissions.check(connection, kind, topic=name, subscription=subscription)

    async def _find_coordinator(
        self, name: TopicName, subscription: str, kind: ConsumerKind
    ) -> Coordinator:
        """One that is idle may be dropped just when it is found. Streams may share a regular
        topic.
        """
        scalable, topic = self.plane, scalable_name(name)
        while True:
            try:
                controller = await scalable.controller(topic)
            except TopicNotFound:
                if kind is not ConsumerKind.STREAM:
                    await scalable.regular.check_scalable(topic, "checkpoints")
                if name.domain is not TopicDomain.PERSISTENT or kind is not ConsumerKind.STREAM:
                    raise
                coordinator = await scalable.regular.coordinator(name, subscription)
                # A controller that began before this group was there has not adopted it.
                if await scalable.exists(topic):
                    continue
            else:
                coordinator = await controller.subscriptions.coordinator(subscription)
            if not coordinator.is_closed:
                return coordinator

    # ------------------------------------------------------------------ namespaces

    def on_watch(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._watch(connection, command.watchScalableTopics)

    async def _watch(self, connection: Connection, request: CommandWatchScalableTopics) -> None:
        if connection.closed:
            return
        registry = connection.attached(ConnectionRegistry)
        previous = registry.namespaces.pop(request.watch_id, None)
        if previous is not None:
            previous.close()
        watcher: NamespaceWatcher | None = None
        try:
            self._check_enabled()
            filters = {each.key: each.value for each in request.property_filters}
            namespace = parse_namespace(request.namespace)
            await self.permissions.check(
                connection, BaseCommand.WATCH_SCALABLE_TOPICS, namespace=namespace
            )
            if connection.closed:
                return
            registry.check_room()
            watcher = self.plane.watch_namespace(connection, request.watch_id, namespace, filters)
            registry.namespaces[watcher.id] = watcher
            async with connection.answering():
                await watcher.start(
                    request.current_hash if request.HasField("current_hash") else None
                )
        except BrokerError as refusal:
            if watcher is not None:
                watcher.close()
                registry.namespaces.pop(request.watch_id, None)
            update = CommandWatchScalableTopicsUpdate(
                watch_id=request.watch_id, error=_code_of(refusal), message=refusal.sentence
            )
            connection.send_command(make_command(update))


def on_close(connection: Connection, command: BaseCommand) -> None:
    """Closing what is not open is no error."""
    session = connection.attached(ConnectionRegistry).layouts.pop(
        command.scalableTopicClose.session_id, None
    )
    if session is not None:
        session.close()


def on_watch_close(connection: Connection, command: BaseCommand) -> None:
    watcher = connection.attached(ConnectionRegistry).namespaces.pop(
        command.watchScalableTopicsClose.watch_id, None
    )
    if watcher is not None:
        watcher.close()


def leave_group(connection: Connection, consumer_id: int) -> Awaitable[None] | None:
    """End the registration of a consumer, if there is one of that id."""
    registry = connection.attached(ConnectionRegistry)
    return registry.leave(consumer_id) if consumer_id in registry.groups else None
