"""HTTP clients that break off, drip or never read: they lose their connection, no other does."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from magnetar.admin.server import serving
from magnetar.runtime.accept import open_socket
from tests.hostile.permission_table import Who
from tests.hostile.test_permission_matrix import TOKENS, secure_broker
from tests.unit.admin.assembly import admin_of_new_broker

HOST = b"host: localhost\r\n"
GOOD = b"GET /admin/v2/clusters HTTP/1.1\r\n" + HOST
WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


class Line:
    """One connection, bytes by bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """Status and head of the next answer; its body is read over."""
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if length is not None:
                await self.reader.readexactly(int(length[1]))
        return int(head.split(b" ")[1]), head

    async def rest(self) -> bytes:
        """All that comes until the broker ends the connection."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def drip_until_lost(self) -> None:
        """Go on with a body until the broker takes no more of it."""
        async with asyncio.timeout(20):
            try:
                while True:
                    self.send(b"x")
                    await self.writer.drain()
                    await asyncio.sleep(0.05)
            except ConnectionError:
                pass


@asynccontextmanager
async def line(port: int) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"x" * 60 + b"\r\nConnection: upgrade\r\n" + b"\r\n\r\n", id="a wish"),
        pytest.param(b"x" * 60 + b"\r\nA: b\r\n\r\n", id="no wish"),
    ],
)
def test_no_byte_of_a_body_becomes_a_part_of_the_next_request(body: bytes) -> None:
    """An early answer closes; after a whole request the next one begins where it begins."""

    async def main() -> None:
        async with (
            admin_of_new_broker() as admin,
            serving(admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web) as port,
        ):
            head = b"POST /nothing HTTP/1.1\r\n" + HOST + b"content-length: %d\r\n\r\n" % len(body)
            async with line(port) as early:
                early.send(head)
                status, answer = await early.answer()
                assert status == 404 and b"connection: close" in answer
                early.send(body + GOOD + b"\r\n")
                assert await early.rest() == b"", "what follows belongs to nobody"
            async with line(port) as whole:
                whole.send(head + body + GOOD + b"\r\n")
                assert (await whole.answer())[0] == 404
                assert (await whole.answer())[0] == 200

    asyncio.run(main())


def test_a_wish_for_http_2_is_passed_over_wherever_the_head_is_cut() -> None:
    """As the Java client sends it with a body; nothing of the body is lost or taken for a head."""

    async def main() -> None:
        async with (
            admin_of_new_broker() as admin,
            serving(admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web) as port,
        ):
            body = b'{"a":"\\r\\nConnection: upgrade\\r\\n"}'
            path = b"PUT /admin/v2/namespaces/public/default/properties HTTP/1.1\r\n"
            typed = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            request = path + HOST + WISH + typed + body
            for cut in (1, 40, len(path) + 30, len(request) - len(body) - 2, len(request) - 5):
                async with line(port) as client:
                    client.send(request[:cut])
                    await asyncio.sleep(0.01)
                    client.send(request[cut:])
                    status, answer = await client.answer()
                    assert status == 204 and b"close" not in answer
                    client.send(GOOD + WISH + b"\r\n" + GOOD + b"\r\n")
                    assert (await client.answer())[0] == 200
                    assert (await client.answer())[0] == 200
            found = await admin.get("/admin/v2/namespaces/public/default/properties")
            assert found.json == {"a": "\r\nConnection: upgrade\r\n"}
            async with line(port) as client:
                client.send(b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n")
                assert (await client.answer())[0] in (400, 404, 405)

    asyncio.run(main())


def test_a_body_that_drips_keeps_no_connection_after_its_answer() -> None:
    """Nor does it keep a super-user out: 401, 404, 408 and 413 are each the last word."""

    async def main() -> None:
        settings = {"maxConcurrentHttpRequests": "8", "maxHttpServerConnections": "8"}
        settings |= {"httpServerIdleTimeout": "500", "httpMaxRequestSize": "1000"}
        async with secure_broker(**settings) as admin:
            key = b"authorization: Bearer %b\r\n" % str(TOKENS[Who.SUPER]).encode()
            put = b"PUT /admin/v2/persistent/t/n/y HTTP/1.1\r\n" + HOST
            long, short = b"content-length: 100000\r\n\r\n", b"content-length: 900\r\n\r\n"
            requests = {
                401: put + long,
                408: put + key + b"content-type: application/json\r\n" + short,
                404: b"PUT /nothing HTTP/1.1\r\n" + HOST + key + long,
                413: put + key + b"content-type: application/json\r\n" + long + b"x" * 2000,
            }
            async with serving(
                admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web
            ) as port:
                for status, request in requests.items():
                    async with line(port) as slow:
                        slow.send(request)
                        told, head = await slow.answer()
                        assert told == status and b"connection: close" in head
                        await slow.drip_until_lost()

    asyncio.run(main())


def test_who_only_holds_http_connections_keeps_nobody_out() -> None:
    async def main() -> None:
        async with (
            secure_broker(maxHttpServerConnections="20") as admin,
            serving(admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web) as port,
        ):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(15)]
            for _, writer in idle[:10]:
                writer.write(b"GET /metr")
            idle += [await asyncio.open_connection("127.0.0.1", port) for _ in range(15)]
            async with line(port) as root:
                key = b"authorization: Bearer %b\r\n" % str(TOKENS[Who.SUPER]).encode()
                root.send(b"GET /admin/v2/tenants HTTP/1.1\r\n" + HOST + key + b"\r\n")
                assert (await root.answer())[0] == 200
            async with asyncio.timeout(20):
                for reader, _ in idle[:10]:
                    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                        await reader.readexactly(1)
            for _, writer in idle:
                writer.close()

    asyncio.run(main())


def test_an_answer_that_is_not_read_ends_with_its_connection() -> None:
    async def main() -> None:
        async with (
            admin_of_new_broker(httpServerIdleTimeout="300") as admin,
            serving(admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web) as port,
            line(port) as deaf,
        ):
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            deaf.send((b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 200)
            slots = admin.application.slots
            async with asyncio.timeout(20):
                while not slots._busy and not slots._waiting:
                    await asyncio.sleep(0.01)
                while slots._busy or slots._waiting:
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_answers_that_are_not_read_are_bounded_in_total() -> None:
    """Of the connections that leave large answers unread, the slowest are closed."""

    async def main() -> None:
        async with (
            admin_of_new_broker(maxUnreadAnswerSize="1000000") as admin,
            serving(admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web) as port,
        ):
            deaf = []
            for _ in range(8):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                writer.write((b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 50)
                deaf.append((reader, writer))
            unread = admin.service.unread
            async with asyncio.timeout(20):
                while len(admin.application.slots._busy) == len(deaf) or not unread._total:
                    await asyncio.sleep(0.01)
            assert unread._total <= 1_000_000
            for _, writer in deaf:
                writer.transport.abort()

    asyncio.run(main())
