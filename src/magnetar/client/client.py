"""The asyncio client: one object per application, producers and consumers made by it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, Unpack

from magnetar.client.authentication import Authentication, Tls, TlsPolicy
from magnetar.client.checkpoint import Checkpoint, check_start
from magnetar.client.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.consumer import AsyncConsumer, AsyncQueueConsumer, IndividualConsumer
from magnetar.client.coordinator import Coordinators, LookedUpCoordinators, WatchedCoordinators
from magnetar.client.dead_letter import LetterProducer
from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.event import OnEvent
from magnetar.client.handle import FirstFailure, Handle, Opening
from magnetar.client.keyword import Option, check_kind, describe, resolve
from magnetar.client.layout import AsyncLayoutChanges, parse_name, parse_regular, parse_scalable
from magnetar.client.message_id import Start, choose_start
from magnetar.client.option import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
    Topics,
    as_given,
    build_checkpoint,
    build_consumer,
    build_producer,
    build_queue,
    build_reader,
    build_stream,
    parse_positive,
)
from magnetar.client.policy import ConnectionPolicy, DeadLetterPolicy
from magnetar.client.producer import AsyncProducer
from magnetar.client.quantity import Duration, Size, parse_size
from magnetar.client.reader import AsyncReader, AsyncTableView
from magnetar.client.schema.schema import BYTES, D, Schema
from magnetar.client.session import MEMORY_BYTES_DEFAULT, Session, make_session
from magnetar.client.stream import AsyncStreamConsumer
from magnetar.client.subscribed_topic import plan_letters
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.telemetry import Telemetry
from magnetar.client.topic_set import ConsumerTarget
from magnetar.client.transaction import TIMEOUT_S, TransactionOpening, open_transaction
from magnetar.errors import InvalidName
from magnetar.model.name import parse_namespace
from magnetar.runtime.clock import SYSTEM, Clock
from magnetar.runtime.log import Logger

if TYPE_CHECKING:
    from magnetar.client.admin.service import AsyncAdmin

_log = Logger(__name__)

C = TypeVar("C", bound=IndividualConsumer[Any])


def _authentication(name: str, given: Any) -> Any:
    if not (hasattr(given, "method_name") and hasattr(given, "auth_data")):
        raise ConfigurationError(
            f"{name} is an object such as TokenAuthentication(token), not a {type(given).__name__}"
        )
    return given


class ClientOptions(TypedDict, total=False):
    """Keywords of a client."""

    authentication: Annotated[
        Authentication | None, Option(None, "How it proves who it is.", _authentication)
    ]
    operation_timeout: Annotated[
        Duration,
        Option(30.0, "Seconds that brokers have to answer, all attempts together.", parse_positive),
    ]
    connection: Annotated[ConnectionPolicy | None, Option(None, "How brokers are reached.")]
    transaction_timeout: Annotated[
        Duration,
        Option(TIMEOUT_S, "Seconds until a transaction left open is aborted.", parse_positive),
    ]
    tls: Annotated[TlsPolicy | ssl.SSLContext | None, Option(None, "Whom to trust.")]
    memory_limit: Annotated[
        Size,
        Option(
            MEMORY_BYTES_DEFAULT,
            'Bytes, or text such as "64MB", of all messages without receipts; 0 sets no limit.',
            parse_size,
        ),
    ]
    listener_name: Annotated[
        str | None, Option(None, "Which of their addresses brokers are asked for.")
    ]
    description: Annotated[str | None, Option(None, "What administrators see of the application.")]
    telemetry: Annotated[
        Telemetry | None, Option(None, "What counts and traces its messages.", as_given)
    ]
    admin_url: Annotated[
        str | None, Option(None, "Of the web service, such as http://localhost:8080, for `admin`.")
    ]
    on_event: Annotated[
        OnEvent | None,
        Option(None, "Called with every Event: connections, assignments, layouts.", as_given),
    ]


class AdminOptions(TypedDict):
    """What a client and its admin client have in common."""

    authentication: Authentication | None
    tls: Tls | None
    timeout: float


class AsyncPulsarClient(Handle):
    """Connects when first needed. Everything it made is closed with it.

    What its methods return is to be awaited, or entered with `async with`. It belongs to one event
    loop: create it inside, and close it there. `on_event` is called there with every `Event`.
    """

    @describe(ClientOptions)
    def __init__(
        self, service_url: str, *, clock: Clock | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        values = resolve("PulsarClient", ClientOptions, options)
        self._transaction_timeout = values.pop("transaction_timeout")
        self._admin_url: str | None = values.pop("admin_url")
        self._session = make_session(service_url, clock or SYSTEM, **values)
        self._service_url = service_url
        self._admin_options = AdminOptions(
            authentication=values["authentication"],
            tls=values["tls"],
            timeout=values["operation_timeout"],
        )
        self._admin: AsyncAdmin | None = None
        self._coordinators = WatchedCoordinators(self._session)
        self._regular_coordinators = LookedUpCoordinators(self._session)
        self._is_closed = False
        self._ended = asyncio.Event()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._session.made)} made"
        return f"<{type(self).__name__} {self._service_url}, {state}>"

    @property
    def admin(self) -> AsyncAdmin:
        """The admin client of the service at `admin_url`, with this client's credentials."""
        self.check_open()
        if self._admin is None:
            from magnetar.client.admin.service import AsyncAdmin  # applications may do without

            self._admin = AsyncAdmin(self._find_admin(), **self._admin_options)
        return self._admin

    def _find_admin(self) -> str:
        if self._admin_url is None:
            raise ConfigurationError(
                "The client does not know the admin URL; name it where the client is made:"
                ' admin_url="http://localhost:8080"'
            )
        return self._admin_url

    @property
    def session(self) -> Session:
        """What everything made here shares, for `magnetar.columns`."""
        return self._session

    @property
    def coordinators(self) -> Coordinators:
        """Those of transactions, for `magnetar.columns`."""
        return self._coordinators

    async def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when no broker answers."""
        await self._session.pool.get_service()

    @describe(ProducerOptions)
    def producer(
        self, topic: str, *, schema: Schema[D] = BYTES, **options: Unpack[ProducerOptions]
    ) -> Opening[AsyncProducer[D]]:
        """A producer on any topic, which the broker makes if it is missing and may be made.

        It follows a topic whose segments or partitions change, and a regular one that becomes
        scalable.
        """
        built, routing, waits_for_room = build_producer(schema, options, self._session.clock.chance)
        settings = self._session.watch_producer(built)
        parsed = parse_name(topic)

        async def open() -> AsyncProducer[D]:
            self.check_open()
            producer: AsyncProducer[D] = AsyncProducer(
                self._session, parsed, settings, routing, waits_for_room=waits_for_room
            )
            await producer.open()
            return producer

        return Opening(open)

    @describe(StreamOptions)
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[D] = BYTES,
        **options: Unpack[StreamOptions],
    ) -> Opening[AsyncStreamConsumer[D]]:
        """A consumer that gets all messages of a key, in order, and acknowledges cumulatively.

        Consumers of one subscription share the segments. On a topic, on several, or on all of a
        `namespace` whose properties match.
        """
        chance = self._session.clock.chance
        built, target, release_timeout = build_stream(topic, subscription, schema, options, chance)
        settings = self._session.watch_consumer(built)

        async def open() -> AsyncStreamConsumer[D]:
            self.check_open()
            consumer: AsyncStreamConsumer[D] = AsyncStreamConsumer(
                self._session, settings, target, release_timeout
            )
            await consumer.open()
            return consumer

        return Opening(open)

    @describe(QueueOptions)
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[D] = BYTES,
        **options: Unpack[QueueOptions],
    ) -> Opening[AsyncQueueConsumer[D]]:
        """A consumer among others that share the messages, each acknowledged on its own.

        On a topic, on several, or on all of a `namespace` whose properties match.
        """
        built = build_queue(topic, subscription, schema, options, self._session.clock.chance)
        return self._open_individual(AsyncQueueConsumer, *built, is_regular=False)

    @describe(ConsumerOptions)
    def consumer(
        self,
        topic: Topics,
        subscription: str,
        *,
        schema: Schema[D] = BYTES,
        **options: Unpack[ConsumerOptions],
    ) -> Opening[AsyncConsumer[D]]:
        """A consumer of regular topics, with any of the four types of subscriptions.

        On a topic or several; with `pattern` and None for the topic, on all of a namespace whose
        names match, also on those created later.
        """
        built = build_consumer(topic, subscription, schema, options, self._session.clock.chance)
        return self._open_individual(AsyncConsumer, *built, is_regular=True)

    def _open_individual(
        self,
        kind: type[C],
        built: ConsumerSettings,
        target: ConsumerTarget,
        dead_letter: DeadLetterPolicy | None,
        *,
        is_regular: bool,
    ) -> Opening[C]:
        settings = self._session.watch_consumer(built)
        topics, policy, retries = plan_letters(
            dead_letter,
            target.topics,
            settings.subscription,
            is_regular=is_regular,
            open_letter_producer=self._open_letter_producer,
        )

        async def open() -> C:
            self.check_open()
            consumer = kind(
                self._session,
                settings,
                target._replace(topics=topics),
                policy,
                retries,
                is_regular=is_regular,
                open_letter_producer=self._open_letter_producer,
            )
            await consumer.open()
            return consumer

        return Opening(open)

    @describe(ReaderOptions)
    def reader(
        self,
        topic: str,
        start: Start = "latest",
        *,
        schema: Schema[D] = BYTES,
        **options: Unpack[ReaderOptions],
    ) -> Opening[AsyncReader[D]]:
        """A reader of a regular topic from behind a message on; with `start_included`, from it."""
        settings = build_reader(choose_start(start), schema, options, self._session.clock.chance)
        opening: Opening[AsyncConsumer[D]] = self._open_individual(
            AsyncConsumer, settings, ConsumerTarget((parse_regular(topic),)), None, is_regular=True
        )

        async def open() -> AsyncReader[D]:
            return AsyncReader(await opening)

        return Opening(open)

    def table_view(self, topic: str, *, schema: Schema[D] = BYTES) -> Opening[AsyncTableView[D]]:
        """The latest value of each key of a regular topic; opened once all of it is read."""
        is_compacted = parse_regular(topic).is_persistent

        async def open() -> AsyncTableView[D]:
            reader = self.reader(topic, "earliest", schema=schema, read_compacted=is_compacted)
            view: AsyncTableView[D] = AsyncTableView(self._session, reader.open)
            await view.open()
            return view

        return Opening(open)

    @describe(CheckpointOptions)
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        schema: Schema[D] = BYTES,
        start: Checkpoint = Checkpoint.LATEST,
        group: str | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> Opening[AsyncCheckpointConsumer[D]]:
        """A reader whose place the application keeps; members of a `group` share the segments."""
        check_kind("group", group, (str,))
        check_start(start)
        settings = self._session.watch_consumer(
            build_checkpoint(schema, options, self._session.clock.chance)
        )
        parsed = parse_scalable(topic)

        async def open() -> AsyncCheckpointConsumer[D]:
            self.check_open()
            consumer: AsyncCheckpointConsumer[D] = AsyncCheckpointConsumer(
                self._session, parsed, settings, start, group
            )
            await consumer.open()
            return consumer

        return Opening(open)

    def layout_changes(self, topic: str) -> AsyncLayoutChanges:
        """An async iterator: the segments there are, then every change of them."""
        return AsyncLayoutChanges(self._session, parse_scalable(topic))

    def transaction(
        self, *, timeout: Duration | None = None, scalable: bool = True
    ) -> TransactionOpening:
        """`async with` commits at the end, and aborts on an exception.

        After `timeout`, else the client's `transaction_timeout`, its coordinator aborts it. It
        spans scalable and regular topics; on Apache Pulsar scalable ones, or with `scalable=False`
        regular ones.
        """
        self.check_open()
        chosen = self._transaction_timeout if timeout is None else timeout
        coordinators = self._coordinators if scalable else self._regular_coordinators
        return open_transaction(self._session, coordinators, chosen)

    async def count_partitions(self, topic: str) -> int:
        """0 for a topic without partitions; nothing is created."""
        return await self._session.lookup.count_partitions(parse_regular(topic), create=False)

    async def list_topics(self, namespace: str, *, mode: str = "PERSISTENT") -> list[str]:
        """Regular topics of a namespace; `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        try:
            parsed = parse_namespace(namespace)
        except InvalidName as error:
            raise ConfigurationError(error.sentence) from None
        return await self._session.lookup.list_topics(parsed, mode=mode)

    async def close(self, *, immediate: bool = False) -> None:
        """Close everything that was made here, then the connections; again does nothing, and while
        it is closed waits for that. Raises what went wrong with a submitted message, or with an
        acknowledgement, and was not told yet.

        With `immediate` nothing is flushed or waited for: sends that are not confirmed fail,
        and that is logged.
        """
        if self._is_closed:
            if not immediate:
                await self._ended.wait()
            return
        self._session.pool.check_loop()
        self._is_closed = True
        try:
            await self._close_all(immediate=immediate)
        finally:
            self._ended.set()

    async def _close_all(self, *, immediate: bool) -> None:
        if immediate:
            self._session.is_ending_now = True
            self._session.pool.close()
        failure = FirstFailure()
        for made in tuple(self._session.made):
            try:
                await made.close()
            except PulsarError as error:
                if immediate or failure.error is not None:
                    _log.warning(error.sentence)
                else:
                    failure.note(error)
        if self._admin is not None:
            await self._admin.close()
        await self._session.scope.close()
        self._session.pool.close()
        await self._session.pool.wait_ended()
        failure.check()

    async def _open_letter_producer(self, topic: str, initial: str | None) -> LetterProducer:
        return await self.producer(topic, batching=False, initial_subscription=initial)

    def check_open(self) -> None:
        """Raise AlreadyClosedError unless it is open."""
        if self._is_closed:
            raise AlreadyClosedError("The client is closed")


Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def lifespan(service_url: str, **options: Unpack[ClientOptions]) -> Lifespan:
    """What FastAPI and Starlette take as `lifespan=`: a client is connected before the first
    request, is there as `app.state.pulsar`, and is closed with all it made after the last.

    The options are those of `AsyncPulsarClient`.
    """

    @asynccontextmanager
    async def run(app: Any) -> AsyncIterator[None]:
        async with AsyncPulsarClient(service_url, **options) as client:
            await client.connect()
            app.state.pulsar = client
            yield

    return run
