"""A broker in the loop of a test: stores in memory, a clock to move, clients without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from magnetar.broker.connection import Connection
from magnetar.broker.handler import make_handlers
from magnetar.broker.ownership import Owner, Ownership, SoleOwnership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.service import Service
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import Position, Term
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import Clock, LoopClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.ledger import FaultyLedgerStore
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.testing.simulation.loop import VirtualLoop
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandFlow,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    KeyValue,
    MessageMetadata,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
    message_id,
    pong,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.frame import FRAME_PADDING_BYTES, FrameDecoder

NAMESPACE = NamespaceName("shop", "eu")
TURNS_MAX = 2_000
_PONG = encode_command(pong())


class StillClock(LoopClock):
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.time_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000

    def pass_s(self, seconds: float) -> None:
        self.time_ms += round(seconds * 1000)


class Wire(asyncio.Transport):
    """The network between one client and the broker: keeps what the broker writes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        # As official clients: a larger frame makes them hang up.
        self._decoder = FrameDecoder(frame_bytes_max=(5 << 20) + FRAME_PADDING_BYTES)
        self.received: list[BaseCommand] = []
        self.payloads: list[bytes] = []
        """What came with each command of `received`."""
        self.closed = False
        self.is_held = False
        """Whether the broker does not want to hear more for now."""
        self.is_deaf = False
        """Whether the client hears nothing any more, though its connection is there."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5555) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is kept has no limit."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._decoder.feed(bytes(data))
        while (frame := self._decoder.next_frame()) is not None:
            command = decode_command(frame.command)
            self.received.append(command)
            self.payloads.append(frame.body)
            if command.type == BaseCommand.PING and not self.is_deaf:
                asyncio.get_running_loop().call_soon(self._connection.data_received, _PONG)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_held = True

    def resume_reading(self) -> None:
        self.is_held = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.connection_lost(None)

    abort = close


class Peer:
    """A client: says commands and waits for what the broker answers."""

    def __init__(self, service: Service) -> None:
        self._connection = Connection(service, make_handlers(service))
        self._wire = Wire(self._connection)
        self._requests = 0
        self._connection.connection_made(self._wire)
        self.say(CommandConnect(client_version="Test-1.0", protocol_version=21))

    def say(self, body: Any) -> None:
        self._connection.data_received(encode_command(make_command(body)))

    def count(self, kind: int) -> int:
        return sum(command.type == kind for command in self._wire.received)

    async def ask(self, body: Any, answer: int) -> BaseCommand:
        before = len(self._wire.received)
        self._requests += 1
        body.request_id = self._requests
        self.say(body)
        return await self._await_answer(before, {answer, BaseCommand.ERROR})

    async def _await_answer(self, start: int, kinds: set[int]) -> BaseCommand:
        def answers() -> list[BaseCommand]:
            return [each for each in self._wire.received[start:] if each.type in kinds]

        await until(lambda: bool(answers()))
        return answers()[0]

    async def produce(self, topic: str, *, producer_id: int = 1, **more: Any) -> BaseCommand:
        request = CommandProducer(
            topic=topic,
            producer_id=producer_id,
            metadata=[KeyValue(key="team", value="a")],
            **more,
        )
        return await self.ask(request, BaseCommand.PRODUCER_SUCCESS)

    async def send(
        self,
        count: int,
        *,
        producer_id: int = 1,
        publish_time: int = 1,
        keys: Callable[[int], str] | None = None,
        size: int = 5,
    ) -> None:
        done = self.count(BaseCommand.SEND_RECEIPT) + count
        for index in range(count):
            metadata = MessageMetadata(
                producer_name="p", sequence_id=index, publish_time=publish_time
            )
            if keys is not None:
                metadata.partition_key = keys(index)
            send = make_command(
                CommandSend(producer_id=producer_id, sequence_id=index, num_messages=1)
            )
            entry = encode_entry(metadata, b"x" * size)
            self._connection.data_received(encode_payload_command(send, entry))
        await until(lambda: self.count(BaseCommand.SEND_RECEIPT) == done)

    async def subscribe(
        self, topic: str, name: str, kind: int, *, consumer_id: int, permits: int = 100, **more: Any
    ) -> BaseCommand:
        request = CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=kind,  # type: ignore[arg-type]
            consumer_id=consumer_id,
            consumer_name=f"{name}-{consumer_id}",
            metadata=[KeyValue(key="zone", value="b")],
            initialPosition=CommandSubscribe.Earliest,
            **more,
        )
        answer = await self.ask(request, BaseCommand.SUCCESS)
        if permits:
            self.say(CommandFlow(consumer_id=consumer_id, messagePermits=permits))
        return answer

    def ack(self, consumer_id: int, *positions: tuple[int, int]) -> None:
        ids = [message_id(Position(*position)) for position in positions]
        self.say(
            CommandAck(consumer_id=consumer_id, ack_type=CommandAck.Individual, message_id=ids)
        )

    def messages(self, consumer_id: int) -> list[tuple[int, int]]:
        return [
            (command.message.message_id.ledgerId, command.message.message_id.entryId)
            for command in self._wire.received
            if command.type == BaseCommand.MESSAGE and command.message.consumer_id == consumer_id
        ]

    async def close_producer(self, producer_id: int = 1) -> None:
        await self.ask(CommandCloseProducer(producer_id=producer_id), BaseCommand.SUCCESS)

    async def close_consumer(self, consumer_id: int) -> None:
        await self.ask(CommandCloseConsumer(consumer_id=consumer_id), BaseCommand.SUCCESS)

    def leave(self) -> None:
        self._wire.close()


async def until(holds: Callable[[], bool]) -> None:
    """Give the loop turns, and in the end time, until something holds."""
    for turn in range(2 * TURNS_MAX):
        if holds():
            return
        await asyncio.sleep(0 if turn < TURNS_MAX else 0.001)
    raise AssertionError("it does not come to hold")


@dataclass
class Place:
    clock: StillClock
    service: Service
    ledgers: FaultyLedgerStore

    def connect(self) -> Peer:
        return Peer(self.service)

    async def topic(self, full: str) -> PersistentTopic:
        topic = await self.service.catalog.load_topic(parse_topic(full), create=True)
        assert isinstance(topic, PersistentTopic)
        return topic


def assemble(
    config: Configuration,
    clock: Clock,
    resources: Resources,
    ledgers: LedgerStore,
    *,
    term: int = 1,
    cache_bytes: int = 1 << 24,
    ownership: Ownership | None = None,
) -> Service:
    """A broker that owns everything, unless told otherwise; its parts can outlive it."""
    owner = Owner(
        "localhost:8080", "pulsar://localhost:6650", "http://localhost:8080", Term(term), True
    )
    return Service(
        config,
        clock,
        store=resources.local,
        ledgers=ledgers,
        resources=resources,
        policies=PolicyService(resources, config, clock=clock),
        schemas=SchemaRegistry(resources.local, ledgers, clock),
        ownership=ownership or SoleOwnership(owner),
        owner=owner,
        cache=EntryCache(cache_bytes),
    )


@asynccontextmanager
async def open_place(
    *,
    cache_bytes: int = 1 << 24,
    make_store: Callable[[MemoryTree], MemoryStore] = MemoryStore,
    make_ledgers: Callable[[], MemoryLedgerStore] = MemoryLedgerStore,
    **settings: object,
) -> AsyncIterator[Place]:
    clock = StillClock()
    # A switch of the active consumer waits for real time unless a test says otherwise.
    # Topics keep their segments unless a test says otherwise.
    calm = {"activeConsumerFailoverDelayTimeMillis": 0, "scalableTopicAutoScaleEnabled": False}
    config = Configuration({**calm, **settings})
    store = make_store(MemoryTree(clock))
    ledgers = FaultyLedgerStore(make_ledgers())
    # As in a cluster with a configuration store: what is read in the wrong one is missed.
    configuration = MemoryStore(MemoryTree(clock))
    resources = Resources(store, configuration, clock=clock)
    await resources.tenants.create("shop", TenantInfo(allowedClusters=("standalone",)))
    await resources.namespaces.create(NAMESPACE, Policies(replication_clusters=("standalone",)))
    service = assemble(config, clock, resources, ledgers, cache_bytes=cache_bytes)
    try:
        yield Place(clock, service, ledgers)
    finally:
        await service.close()


def run(body: Callable[[Place], Coroutine[Any, Any, None]], **settings: Any) -> None:
    asyncio.run(_play(body, settings))


def run_virtually(body: Callable[[Place], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """A timeout passes when nothing else can happen, however slow the machine; without threads."""
    loop = VirtualLoop(Random(0))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_play(body, settings))
    assert loop.failures == []


async def _play(
    body: Callable[[Place], Coroutine[Any, Any, None]], settings: dict[str, Any]
) -> None:
    async with open_place(**settings) as place:
        await body(place)
