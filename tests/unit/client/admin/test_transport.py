"""Connections of the admin client: kept, shared by tasks and threads, and given up."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager

import pytest

from magnetar import Admin, AsyncAdmin, PulsarError, TokenAuthentication
from magnetar.client.error import (
    AdminUnreachable,
    AlreadyClosedError,
    ConfigurationError,
    decode_status,
)
from tests.unit.client.admin.web import Answer, ScriptedWeb, scripted_web

Body = Callable[[ScriptedWeb, AsyncAdmin], Awaitable[None]]


def in_loop(body: Body) -> None:
    async def open_and_run() -> None:
        with scripted_web() as web:
            async with AsyncAdmin(web.url, timeout=60) as admin:
                await body(web, admin)

    asyncio.run(open_and_run())


def test_calls_one_after_the_other_share_a_connection() -> None:
    async def body(web: ScriptedWeb, admin: AsyncAdmin) -> None:
        for _ in range(3):
            await admin.topics.create("x")
        assert len(web.asked) == 3 and web.connections == 1

    in_loop(body)


def test_calls_at_a_time_have_a_connection_each_up_to_a_bound() -> None:
    async def body(web: ScriptedWeb, admin: AsyncAdmin) -> None:
        go = threading.Event()
        web.answers = [Answer(200, "[]", waits_for=go) for _ in range(20)]
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(admin.tenants.list()) for _ in range(20)]
            while len(web.asked) < 8:
                await asyncio.sleep(0)
            assert not any(call.done() for call in calls)
            go.set()
        assert len(web.asked) == 20 and web.connections == 8

    in_loop(body)


def test_an_idle_connection_that_the_server_dropped_is_opened_again() -> None:
    async def body(web: ScriptedWeb, admin: AsyncAdmin) -> None:
        web.answers = [Answer(200, "[]", hangs_up=True), Answer(200, '["t"]')]
        assert await admin.tenants.list() == []
        assert await admin.tenants.list() == ["t"]
        assert web.connections == 2

    in_loop(body)


def test_the_connection_of_a_cancelled_call_is_not_used_again() -> None:
    async def body(web: ScriptedWeb, admin: AsyncAdmin) -> None:
        go = threading.Event()
        web.answers = [Answer(200, '["late"]', waits_for=go), Answer(200, '["right"]')]
        call = asyncio.create_task(admin.tenants.list())
        while not web.asked:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await admin.tenants.list() == ["right"]
        go.set()

    in_loop(body)


@asynccontextmanager
async def endless_list() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A server that sends names for as long as they are read; the event tells that it stopped."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b'4\r\n"a"\n\r\n')
                await writer.drain()
        except ConnectionError:
            ended.set()
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", ended


def test_a_list_that_is_left_early_ends_at_the_server_too() -> None:
    async def body() -> None:
        async with endless_list() as (url, ended), AsyncAdmin(url) as admin:
            async with aclosing(admin.topics.stream("t/n")) as names:
                assert await anext(names) == "a"
            await asyncio.wait_for(ended.wait(), 60)
            assert await admin.topics.page("t/n", limit=3) == ["a"] * 3

    asyncio.run(body())


def test_a_blocking_list_that_is_left_early_ends_at_the_server_too() -> None:
    def read(url: str) -> None:
        with Admin(url) as admin:
            names = admin.topics.stream("t/n")
            assert next(names) == "a"
            del names

    async def body() -> None:
        async with endless_list() as (url, ended):
            await asyncio.to_thread(read, url)
            await asyncio.wait_for(ended.wait(), 60)

    asyncio.run(body())


def test_a_service_that_does_not_answer_in_time_is_unreachable() -> None:
    async def body() -> None:
        async with AsyncAdmin(url, timeout=0.01) as admin:
            await admin.tenants.list()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(AdminUnreachable, match="no answer in time"):
            asyncio.run(body())
        with (
            Admin(url, timeout=0.01) as admin,
            pytest.raises(AdminUnreachable, match="no answer in time"),
        ):
            admin.tenants.list()


@pytest.mark.parametrize(
    ("location", "cause"),
    [("ftp://h/x", "not an HTTP URL"), ("http://h:99999/", "not an HTTP URL")],
)
def test_a_redirect_out_of_http_is_not_followed(location: str, cause: str) -> None:
    with scripted_web() as web, Admin(web.url) as admin:
        web.answers = [Answer(307, "", (("Location", location),))]
        with pytest.raises(AdminUnreachable, match=cause):
            admin.tenants.list()


def test_redirects_end() -> None:
    with scripted_web() as web, Admin(web.url) as admin:
        web.answers = [Answer(307, "", (("Location", "/round"),))] * 10
        with pytest.raises(PulsarError, match="307"):
            admin.tenants.list()
        assert len(web.asked) == 6 and web.connections == 1


def test_a_token_may_come_from_a_coroutine_function() -> None:
    async def supply() -> str:
        await asyncio.sleep(0)
        return "fresh"

    async def body() -> None:
        with scripted_web() as web:
            async with AsyncAdmin(web.url, authentication=TokenAuthentication(supply)) as admin:
                await admin.topics.create("x")
            with Admin(web.url, authentication=TokenAuthentication(supply)) as blocking:
                blocking.topics.create("x")
            assert [asked.authorization for asked in web.asked] == ["Bearer fresh"] * 2

    asyncio.run(body())


def test_credentials_that_http_cannot_carry_are_refused_and_not_shown() -> None:
    with Admin("http://127.0.0.1:1", token="secret\r\nX-Other: 1") as admin:
        with pytest.raises(ConfigurationError, match="does not allow") as caught:
            admin.tenants.list()
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None


def test_a_closed_client_refuses() -> None:
    with scripted_web() as web:
        with Admin(web.url) as admin:
            admin.topics.create("x")
        with pytest.raises(AlreadyClosedError):
            admin.topics.create("x")


def test_the_blocking_client_works_where_a_loop_runs() -> None:
    async def body() -> None:
        with scripted_web() as web, Admin(web.url) as admin:
            web.answers = [Answer(200, '["a"]'), Answer(200, '["b"]')]
            assert admin.tenants.list() == ["a"]
            assert list(admin.topics.stream("t/n", domain="persistent")) == ["b"]

    asyncio.run(body())


def test_threads_share_the_blocking_client() -> None:
    with scripted_web() as web, Admin(web.url) as admin, ThreadPoolExecutor(4) as threads:
        every = [f"t{number}" for number in range(100)]
        list(threads.map(lambda name: admin.topics.create(name, properties={"me": name}), every))
        told = {asked.path.rpartition("/")[2]: json.loads(asked.body) for asked in web.asked}
        assert told == {name: {"me": name} for name in every}
        assert web.connections <= 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_opens_a_connection_of_its_own() -> None:
    with scripted_web() as web, Admin(web.url) as admin:
        web.answers = [Answer(200, f'["{name}"]') for name in ("first", "child", "parent")]
        assert admin.tenants.list() == ["first"]
        child = os.fork()
        if child == 0:
            os._exit(0 if admin.tenants.list() == ["child"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert admin.tenants.list() == ["parent"]
        assert web.connections == 2


def test_everything_that_the_admin_client_raises_has_one_root() -> None:
    for status in (401, 404, 405, 409, 412, 418, 500):
        assert isinstance(decode_status(status, "no"), PulsarError)
    with Admin("http://127.0.0.1:1") as admin:
        for call in (admin.tenants.list, lambda: admin.topics.stats("a/b")):
            with pytest.raises(PulsarError):
                call()
