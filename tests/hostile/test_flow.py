"""A client that sends and does not read: what waits for it is bounded, and others are served."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar.broker.connection import Connection
from magnetar.broker.handler import make_handlers
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.broker.topiclist import TopicListWatchers
from magnetar.model.name import parse_topic
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand
from magnetar.wire.topiclist import hash_topics
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker
from tests.unit.broker.broker_place import Wire, until

MIB = 1 << 20
BASE = "persistent://public/default/"
CONNECT = wire.CommandConnect(client_version="Test", protocol_version=21)


def run(body: Callable[[Admin], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with admin_of_new_broker(**settings) as admin:
            await body(admin)

    asyncio.run(main())


class SlowWire(Wire):
    """A client that reads only when it is told to."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._high = 1 << 16
        self._unread: list[bytes] = []
        self.unread_bytes = 0
        self.most_bytes = 0
        self.is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_reading:
            super().write(data)
            return
        was_full = self.unread_bytes > self._high
        self._unread.append(bytes(data))
        self.unread_bytes += len(data)
        self.most_bytes = max(self.most_bytes, self.unread_bytes)
        if self.unread_bytes > self._high and not was_full:
            self._connection.pause_writing()

    def read(self) -> None:
        """Read what there is, and nothing that comes later."""
        unread, self._unread = self._unread, []
        was_full, self.unread_bytes = self.unread_bytes > self._high, 0
        for data in unread:
            super().write(data)
        if was_full:
            self._connection.resume_writing()


class Client:
    def __init__(
        self,
        admin: Admin,
        handlers: Any = None,
        *,
        connect: wire.CommandConnect = CONNECT,
        make_wire: type[SlowWire] = SlowWire,
    ) -> None:
        self.connection = Connection(admin.service, handlers or make_handlers(admin.service))
        self.wire = make_wire(self.connection)
        self.connection.connection_made(self.wire)
        self.say(connect)

    def say(self, *bodies: Any) -> None:
        """All of it in one read of the socket."""
        frames = (wire.encode_command(wire.make_command(body)) for body in bodies)
        self.connection.data_received(b"".join(frames))

    def heard(self, kind: int) -> list[BaseCommand]:
        return [each for each in self.wire.received if each.type == kind]


async def settle() -> None:
    for _ in range(300):
        await asyncio.sleep(0)


async def make_topics(admin: Admin, *names: str) -> None:
    for name in names:
        assert (await admin.put(f"{V2}/persistent/public/default/{name}")).status == 204


# ---------------------------------------------------------------------- requests under way


def test_the_limit_of_requests_under_way_holds_within_one_read() -> None:
    gate = asyncio.Event()
    started: list[int] = []

    async def wait(request_id: int) -> None:
        await gate.wait()
        started.append(request_id)

    def on_lookup(connection: Connection, command: BaseCommand) -> Awaitable[None]:
        started.append(-1)
        return wait(command.lookupTopic.request_id)

    async def body(admin: Admin) -> None:
        client = Client(admin, {**make_handlers(admin.service), BaseCommand.LOOKUP: on_lookup})
        client.say(*(wire.CommandLookupTopic(topic="x", request_id=n) for n in range(1500)))
        await settle()
        assert started == [-1] * 1000 and client.wire.is_held
        gate.set()
        await until(lambda: len(started) == 3000)
        assert [each for each in started if each >= 0] == list(range(1500)), "all of them, in order"
        assert not client.wire.is_held

    run(body)


def test_a_frame_cut_where_the_connection_is_held_goes_on_in_order() -> None:
    async def body(admin: Admin) -> None:
        client = Client(admin)
        names = [BASE + str(number) for number in range(40)]
        frames = b"".join(
            wire.encode_command(
                wire.make_command(wire.CommandPartitionedTopicMetadata(topic=name, request_id=n))
            )
            for n, name in enumerate(names)
        )
        for start in range(0, len(frames), 100):
            client.connection.data_received(frames[start : start + 100])
            if start % 300 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(client.heard(BaseCommand.PARTITIONED_METADATA_RESPONSE)) == 40)
        answered = client.heard(BaseCommand.PARTITIONED_METADATA_RESPONSE)
        assert sorted(each.partitionMetadataResponse.request_id for each in answered) == list(
            range(40)
        )

    run(body, maxPendingRequestsPerConnection="3")


# ---------------------------------------------------------------------- answers


def test_lists_of_topics_that_are_not_read_are_not_made() -> None:
    async def body(admin: Admin) -> None:
        await make_topics(admin, *(f"{number:0200}" for number in range(100)))
        client = Client(admin)
        await settle()
        client.wire.is_reading = False
        asked = [
            wire.CommandGetTopicsOfNamespace(namespace="public/default", request_id=n)
            for n in range(600)
        ]
        client.say(*asked)
        for _ in range(20):
            await settle()
        assert MIB < client.wire.most_bytes < 2 * MIB, "600 answers are 14 MB"
        while len(client.heard(BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)) < 600:
            client.wire.read()
            await settle()
        assert client.wire.most_bytes < 2 * MIB and not client.wire.closed

    run(body)


def test_commands_wait_unstarted_while_the_peer_does_not_read() -> None:
    calls: list[int] = []

    def on_lookup(connection: Connection, command: BaseCommand) -> None:
        calls.append(command.lookupTopic.request_id)
        connection.send(bytes(MIB // 4))

    async def body(admin: Admin) -> None:
        client = Client(admin, {**make_handlers(admin.service), BaseCommand.LOOKUP: on_lookup})
        await settle()
        client.wire.is_reading = False
        client.say(*(wire.CommandLookupTopic(topic="x", request_id=n) for n in range(100)))
        assert len(calls) == 5, "no more than fill the buffer"

    run(body)


class FullWire(SlowWire):
    """A socket that does not close before everything is read, unless it is aborted."""

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self._unread.clear()
        self.unread_bytes = 0
        self._connection.connection_lost(None)


def test_a_connection_that_is_closed_does_not_wait_for_who_never_reads() -> None:
    async def body(admin: Admin) -> None:
        client = Client(admin, make_wire=FullWire)
        await settle()
        client.wire.is_reading = False
        client.connection.send(bytes(MIB))
        await settle()
        client.say(wire.CommandConnected(server_version="no"))
        assert client.wire.closed and client.connection in admin.service.connections
        async with asyncio.timeout(20):
            while client.connection in admin.service.connections:
                await asyncio.sleep(0.01)

    run(body)


# ---------------------------------------------------------------------- watchers


def watch_list(number: int, pattern: str = "public/default/.*") -> wire.CommandWatchTopicList:
    return wire.CommandWatchTopicList(
        namespace="public/default", request_id=number, watcher_id=number, topics_pattern=pattern
    )


def test_what_a_watcher_of_topics_does_not_read_is_merged() -> None:
    async def body(admin: Admin) -> None:
        client = Client(admin)
        client.say(watch_list(1))
        await until(lambda: bool(client.heard(BaseCommand.WATCH_TOPIC_LIST_SUCCESS)))
        client.wire.is_reading = False
        client.connection.send(bytes(2 * MIB))
        waiting = client.wire.unread_bytes
        names = [f"t{number}" for number in range(30)]
        await make_topics(admin, *names)
        await admin.service.catalog.delete_topic(parse_topic(BASE + "t7"))
        await until(lambda: not admin.service.topic_lists._is_telling)
        assert client.wire.unread_bytes == waiting, "nothing is queued for it"
        client.wire._unread.clear()
        client.wire.is_reading = True
        client.wire.read()
        await settle()
        [update] = client.heard(BaseCommand.WATCH_TOPIC_UPDATE)
        there = [BASE + name for name in names if name != "t7"]
        assert sorted(update.watchTopicUpdate.new_topics) == sorted(there)
        assert not update.watchTopicUpdate.deleted_topics, "it came and went unseen"
        assert update.watchTopicUpdate.topics_hash == hash_topics(there)

    run(body)


def test_watchers_of_one_pattern_share_one_list() -> None:
    async def body(admin: Admin) -> None:
        client = Client(admin)
        client.say(*(watch_list(number) for number in range(50)), watch_list(99, "public/x/.*"))
        await until(lambda: len(client.heard(BaseCommand.WATCH_TOPIC_LIST_SUCCESS)) == 51)
        lists = {id(each._list) for each in client.connection.attached(TopicListWatchers)}
        assert len(lists) == 2
        await make_topics(admin, "a")
        await until(lambda: len(client.heard(BaseCommand.WATCH_TOPIC_UPDATE)) == 50)
        hashes = {each.watchTopicUpdate.topics_hash for each in client.wire.received}
        assert hash_topics([BASE + "a"]) in hashes
        for number in (*range(50), 99):
            client.say(wire.CommandWatchTopicListClose(request_id=number, watcher_id=number))
        assert len(admin.service.topic_lists) == 0

    run(body)


@pytest.mark.parametrize("updates", [1, 50])
def test_what_a_watcher_of_scalable_topics_does_not_read_is_merged(updates: int) -> None:
    async def body(admin: Admin) -> None:
        client = Client(admin)
        client.say(wire.CommandWatchScalableTopics(watch_id=1, namespace="public/default"))
        await until(lambda: bool(client.heard(BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE)))
        client.wire.is_reading = False
        client.connection.send(bytes(2 * MIB))
        waiting = client.wire.unread_bytes
        for number in range(updates):
            path = f"{V2}/scalable/public/default/s{number}"
            assert (await admin.put(path, {})).status == 204
        [watcher] = client.connection.attached(ConnectionRegistry).namespaces.values()
        await until(lambda: watcher._watch.untold_count == updates)
        await settle()
        assert client.wire.unread_bytes == waiting
        client.wire._unread.clear()
        client.wire.is_reading = True
        client.wire.read()
        await settle()
        [_, update] = client.heard(BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE)
        assert len(update.watchScalableTopicsUpdate.diff.added) == updates

    run(body)


# ---------------------------------------------------------------------- credentials


def test_what_comes_with_a_connect_waits_until_its_password_is_judged() -> None:
    users = base64.b64encode(b"admin:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\n").decode()
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "basic",
        "basicAuthConf": f"data:;base64,{users}",
    }

    def connect(password: str) -> wire.CommandConnect:
        data = f"admin:{password}".encode()
        return wire.CommandConnect(
            client_version="Test", auth_method_name="basic", auth_data=data, protocol_version=21
        )

    async def body(admin: Admin) -> None:
        lookup = wire.CommandPartitionedTopicMetadata(topic=BASE + "x", request_id=7)
        good, bad = Client(admin, connect=connect("123456")), Client(admin, connect=connect("no"))
        for each in (good, bad):
            each.say(lookup, lookup)
            assert not each.wire.received, "no password is judged within a read"
        await until(lambda: len(good.wire.received) == 3 and bad.wire.closed)
        assert [each.type for each in good.wire.received] == [
            BaseCommand.CONNECTED,
            *[BaseCommand.PARTITIONED_METADATA_RESPONSE] * 2,
        ]
        [refused] = bad.wire.received
        assert refused.error.error == wire.ServerError.AuthenticationError

    run(body, **settings)
