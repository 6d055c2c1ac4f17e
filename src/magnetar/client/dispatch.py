"""What a connection brings, and who gets it: answers to requests, messages, receipts, pushes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from magnetar.client.address import BrokerAddress
from magnetar.client.error import PulsarError, PulsarTimeoutError
from magnetar.runtime.clock import Clock
from magnetar.wire.command import (
    BaseCommand,
    CommandMessage,
    CommandSendError,
    CommandSendReceipt,
)

Type = BaseCommand.Type

ANSWERS: Final = frozenset(
    {
        Type.SUCCESS,
        Type.PRODUCER_SUCCESS,
        Type.LOOKUP_RESPONSE,
        Type.PARTITIONED_METADATA_RESPONSE,
        Type.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        Type.GET_LAST_MESSAGE_ID_RESPONSE,
        Type.GET_SCHEMA_RESPONSE,
        Type.GET_OR_CREATE_SCHEMA_RESPONSE,
        Type.ACK_RESPONSE,
        Type.CONSUMER_STATS_RESPONSE,
        Type.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
        Type.WATCH_TOPIC_LIST_SUCCESS,
        Type.TC_CLIENT_CONNECT_RESPONSE,
        Type.NEW_TXN_RESPONSE,
        Type.ADD_PARTITION_TO_TXN_RESPONSE,
        Type.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        Type.END_TXN_RESPONSE,
    }
)


@dataclass(slots=True)
class _Waiting:
    expect: int
    answer: asyncio.Future[Any]
    limit: asyncio.Timeout | None = None


class Requests:
    """Those of one connection: ids are its own, and replies match by type and id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ids = count()
        self._waiting: dict[int, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def next_id(self) -> int:
        return next(self._ids)

    async def ask(
        self, body: Any, expect: int, send: Callable[[Any], None], *, timeout: float, whom: object
    ) -> Any:
        """Number the body, send it, and return the body of its answer."""
        id = body.request_id = next(self._ids)
        waiting = _Waiting(expect, asyncio.get_running_loop().create_future())
        self._waiting[id] = waiting
        try:
            async with self._clock.timeout(timeout) as limit:
                waiting.limit = limit
                send(body)
                return await waiting.answer
        except TimeoutError:
            kind = type(body).__name__.removeprefix("Command")
            raise PulsarTimeoutError(f"{whom} did not answer {kind} in time") from None
        finally:
            del self._waiting[id]

    def on_answer(self, kind: int, answer: Any) -> None:
        waiting = self._waiting.get(answer.request_id)
        if waiting is None or waiting.expect != kind or waiting.answer.done():
            return
        if kind == Type.PRODUCER_SUCCESS and not answer.producer_ready:
            # Queued behind another producer: the second answer comes when it is our turn.
            if waiting.limit is not None:
                waiting.limit.reschedule(None)
            return
        waiting.answer.set_result(answer)

    def refuse(self, id: int, refusal: PulsarError) -> None:
        waiting = self._waiting.get(id)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(refusal)

    def refuse_all(self, refusal: PulsarError) -> None:
        for id in self._waiting:
            self.refuse(id, refusal)


class Carrier(Protocol):
    """A connection, as what dispatches its commands sees it."""

    @property
    def address(self) -> BrokerAddress: ...

    def touch(self) -> None:
        """Note that it is used, or was until now."""


C = TypeVar("C", bound=Carrier)
C_contra = TypeVar("C_contra", contravariant=True)


class ProducerEnd(Protocol[C_contra]):
    """A producer, as its connection sees it."""

    def on_receipt(self, receipt: CommandSendReceipt) -> None: ...

    def on_send_error(self, error: CommandSendError) -> None: ...

    def on_closed(self, connection: C_contra, assigned: str | None) -> None: ...


class ConsumerEnd(Protocol[C_contra]):
    """A consumer, as its connection sees it."""

    def on_message(self, command: CommandMessage, entry: bytes) -> None: ...

    def on_active_change(self, is_active: bool) -> None: ...

    def on_end_of_topic(self) -> None: ...

    def on_closed(self, connection: C_contra, assigned: str | None) -> None: ...


class PushEnd(Protocol[C_contra]):
    """Handles what the broker pushes: a layout, an assignment, the topics there are."""

    def on_push(self, body: Any) -> None: ...

    def on_closed(self, connection: C_contra, assigned: str | None) -> None: ...


class Ends(Generic[C]):
    """The producers, consumers and listeners on one connection, by the ids they chose."""

    def __init__(self, connection: C) -> None:
        self._connection = connection
        self._producers: dict[int, ProducerEnd[C]] = {}
        self._consumers: dict[int, ConsumerEnd[C]] = {}
        self._listeners: dict[tuple[int, int], PushEnd[C]] = {}

    def __bool__(self) -> bool:
        return bool(self._producers or self._consumers or self._listeners)

    def add_producer(self, producer_id: int, producer: ProducerEnd[C]) -> None:
        self._producers[producer_id] = producer

    def remove_producer(self, producer_id: int) -> None:
        self._producers.pop(producer_id, None)
        self._connection.touch()

    def add_consumer(self, consumer_id: int, consumer: ConsumerEnd[C]) -> None:
        self._consumers[consumer_id] = consumer

    def remove_consumer(self, consumer_id: int) -> None:
        self._consumers.pop(consumer_id, None)
        self._connection.touch()

    def add_listener(self, kind: int, id: int, listener: PushEnd[C]) -> None:
        """Gets the pushes of one type that carry this session, consumer or watch id."""
        self._listeners[kind, id] = listener

    def remove_listener(self, kind: int, id: int) -> None:
        self._listeners.pop((kind, id), None)
        self._connection.touch()

    def close(self) -> None:
        """Tell everybody that the connection has ended."""
        producers, self._producers = self._producers, {}
        consumers, self._consumers = self._consumers, {}
        for producer in producers.values():
            producer.on_closed(self._connection, None)
        for consumer in consumers.values():
            consumer.on_closed(self._connection, None)
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.on_closed(self._connection, None)

    def on_receipt(self, receipt: Any, _: bytes) -> None:
        if (producer := self._producers.get(receipt.producer_id)) is not None:
            producer.on_receipt(receipt)

    def on_send_error(self, error: Any, _: bytes) -> None:
        if (producer := self._producers.get(error.producer_id)) is not None:
            producer.on_send_error(error)

    def on_message(self, command: Any, entry: bytes) -> None:
        if (consumer := self._consumers.get(command.consumer_id)) is not None:
            consumer.on_message(command, entry)

    def on_close_producer(self, command: Any, _: bytes) -> None:
        # It stays listed: receipts of what was stored before may still be on their way.
        producer = self._producers.get(command.producer_id)
        if producer is not None:
            producer.on_closed(self._connection, self._assigned(command))

    def on_close_consumer(self, command: Any, _: bytes) -> None:
        consumer = self._consumers.pop(command.consumer_id, None)
        self._connection.touch()
        if consumer is not None:
            consumer.on_closed(self._connection, self._assigned(command))

    def _assigned(self, command: Any) -> str | None:
        if self._connection.address.secure:
            return command.assignedBrokerServiceUrlTls or None
        return command.assignedBrokerServiceUrl or None

    def on_active_change(self, change: Any, _: bytes) -> None:
        if (consumer := self._consumers.get(change.consumer_id)) is not None:
            consumer.on_active_change(change.is_active)

    def on_end_of_topic(self, command: Any, _: bytes) -> None:
        if (consumer := self._consumers.get(command.consumer_id)) is not None:
            consumer.on_end_of_topic()

    def on_push(self, kind: int, body: Any) -> None:
        listener = self._listeners.get((kind, getattr(body, PUSHES[kind])))
        if listener is not None:
            listener.on_push(body)


DELIVERIES: Final[Mapping[int, Callable[[Ends[Any], Any, bytes], None]]] = {
    Type.MESSAGE: Ends.on_message,
    Type.SEND_RECEIPT: Ends.on_receipt,
    Type.SEND_ERROR: Ends.on_send_error,
    Type.CLOSE_PRODUCER: Ends.on_close_producer,
    Type.CLOSE_CONSUMER: Ends.on_close_consumer,
    Type.ACTIVE_CONSUMER_CHANGE: Ends.on_active_change,
    Type.REACHED_END_OF_TOPIC: Ends.on_end_of_topic,
}
PUSHES: Final[Mapping[int, str]] = {
    Type.SCALABLE_TOPIC_UPDATE: "session_id",
    Type.SCALABLE_TOPIC_ASSIGNMENT_UPDATE: "consumer_id",
    Type.WATCH_SCALABLE_TOPICS_UPDATE: "watch_id",
    Type.WATCH_TOPIC_UPDATE: "watcher_id",
    Type.WATCH_TC_ASSIGNMENTS_UPDATE: "watch_id",
}
"""News that a broker sends by itself, and the field that tells which listener it is for."""
