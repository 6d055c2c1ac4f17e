"""What a hostile client may not do: come too often, send too much, stall the loop, step between
folders, use somebody's browser; and what nobody gets to see.
"""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from magnetar.admin.server import serving
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.errors import NotAllowed
from magnetar.runtime.accept import open_socket
from magnetar.testing.broker import MagnetarBroker
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand
from magnetar.wire.jwt import sign_token
from tests.hostile.permission_table import Who
from tests.hostile.test_permission_matrix import KEY, SETTINGS, TOKENS, Peer, code_of, secure_broker
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker

TOPIC = "persistent://public/default/x"
WATCHES = 20


def run(body: Callable[[Admin], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with admin_of_new_broker(**settings) as admin:
            await body(admin)

    asyncio.run(main())


async def connected(admin: Admin) -> tuple[Peer, str | None]:
    """A new client, and the code it was refused with."""
    peer = Peer(admin, None)
    for _ in range(3):
        await asyncio.sleep(0)
    return peer, code_of(peer.wire.received[0])


# ---------------------------------------------------------------------- connections


@pytest.mark.parametrize("key", ["brokerMaxConnections", "brokerMaxConnectionsPerIp"])
def test_one_connection_too_many_is_told_so_and_closed(key: str) -> None:
    async def body(admin: Admin) -> None:
        first, refused = await connected(admin)
        assert refused is None
        assert (await connected(admin))[1] is None
        third, refused = await connected(admin)
        assert refused == "NotAllowedError" and third.wire.closed
        first.wire.close()
        assert (await connected(admin))[1] is None, "a place became free"

    run(body, **{key: "2"})


def test_addresses_are_counted_apart() -> None:
    async def body(admin: Admin) -> None:
        limit = admin.service.connection_limit
        limit.enter("10.0.0.1")
        limit.enter("10.0.0.2")
        with pytest.raises(NotAllowed, match=r"from 10\.0\.0\.1: 1"):
            limit.enter("10.0.0.1")
        limit.leave("10.0.0.1")
        limit.enter("10.0.0.1")

    run(body, brokerMaxConnectionsPerIp="1")


def test_who_has_not_said_who_it_is_may_send_credentials_and_no_more() -> None:
    async def body(admin: Admin) -> None:
        peer = Peer(admin, "x" * (80 << 10))
        assert peer.wire.closed
        frame = (5 << 20).to_bytes(4, "big") + bytes(4)
        peer, _ = await connected(admin)
        peer.connection.data_received(frame)
        assert not peer.wire.closed, "a connection that is let in may send messages"

    run(body)


# ---------------------------------------------------------------------- requests under way


def test_lookups_and_loads_beyond_the_limit_are_told_to_come_back() -> None:
    async def body(admin: Admin) -> None:
        peer, _ = await connected(admin)
        asked = (
            wire.CommandLookupTopic(topic=TOPIC, request_id=1),
            wire.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=1),
        )
        with admin.service.lookup_limit.counted():
            for request in asked:
                assert code_of((await peer.ask(request))[0]) == "TooManyRequests"
        for request in asked:
            assert code_of((await peer.ask(request))[0]) is None
        producer = wire.CommandProducer(topic=TOPIC, producer_id=1, request_id=1)
        with admin.service.catalog.loading.counted():
            assert code_of((await peer.ask(producer))[0]) == "ServiceNotReady"
        assert code_of((await peer.ask(producer))[0]) is None

    run(body, maxConcurrentLookupRequest="1", maxConcurrentTopicLoadRequest="1")


def test_one_connection_watches_so_much_and_no_more() -> None:
    async def body(admin: Admin) -> None:
        peer, _ = await connected(admin)
        for session in range(WATCHES):
            peer.say(wire.CommandScalableTopicLookup(session_id=session, topic=TOPIC))
        told = await peer.ask(wire.CommandScalableTopicLookup(session_id=WATCHES, topic=TOPIC))
        assert "TooManyRequests" in {code_of(each) for each in told}
        assert len(peer.connection.attached(ConnectionRegistry).layouts) == WATCHES
        watch = wire.CommandWatchScalableTopics(watch_id=1, namespace="public/default")
        assert "TooManyRequests" in {code_of(each) for each in await peer.ask(watch)}
        peer.say(wire.CommandScalableTopicClose(session_id=0))
        assert {code_of(each) for each in await peer.ask(watch)} == {None}

    run(body, maxScalableTopicWatchesPerConnection=str(WATCHES))


# ---------------------------------------------------------------------- patterns


def topics_of(replies: list[BaseCommand]) -> tuple[list[str], bool]:
    [reply] = replies
    found = reply.getTopicsOfNamespaceResponse
    return [each.rsplit("/", 1)[-1] for each in found.topics], found.filtered


def test_no_pattern_stalls_the_loop() -> None:
    """A matcher that backtracks would need longer than the universe for the first of these."""

    async def body(admin: Admin) -> None:
        long = "a" * 200
        for name in (long, "b"):
            assert (await admin.put(f"{V2}/persistent/public/default/{name}")).status == 204
        peer, _ = await connected(admin)

        async def ask(pattern: str) -> tuple[list[str], bool]:
            request = wire.CommandGetTopicsOfNamespace(
                namespace="public/default", request_id=1, topics_pattern=pattern
            )
            return topics_of(await peer.ask(request))

        assert await ask("public/default/(a+)+(a+)+c") == ([], True)
        assert await ask("public/default/(a|aa)+") == ([long], True)
        # What cannot be matched in bounded time is left to the client, which filters itself.
        assert await ask("public/default/(?!b).*") == ([long, "b"], False)
        watch = wire.CommandWatchTopicList(
            namespace="public/default", request_id=1, watcher_id=1, topics_pattern=".*(?<!b)"
        )
        [refused] = await peer.ask(watch)
        assert code_of(refused) == "NotAllowedError" and "bounded time" in refused.error.message

    run(body)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", [".", ".."])
def test_no_name_is_a_step_between_folders(name: str) -> None:
    async def body(admin: Admin) -> None:
        for path in (
            f"tenants/{name}",
            f"namespaces/public/{name}",
            f"persistent/public/default/{name}",
            f"scalable/public/default/{name}",
            f"clusters/{name}",
        ):
            reply = await admin.put(f"{V2}/{path}", {})
            assert reply.status == 412, (path, reply.body)
        peer, _ = await connected(admin)
        for topic in (f"persistent://public/default/{name}", f"persistent://public/{name}/x"):
            request = wire.CommandProducer(topic=topic, producer_id=1, request_id=1)
            assert code_of((await peer.ask(request))[0]) == "InvalidTopicName"

    run(body)


# ---------------------------------------------------------------------- HTTP


async def talk(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(20):
        answer = await reader.read(4096)
    writer.close()
    return answer


def test_heads_of_requests_are_bounded_whole_or_drop_by_drop() -> None:
    async def body(admin: Admin) -> None:
        async with serving(
            admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web
        ) as port:
            start = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n"
            large = b"x: " + b"y" * 9000
            assert b" 431 " in await talk(port, start + large + b"\r\n\r\n")
            assert b" 431 " in await talk(port, start + large), "it never ends"
            path = b"GET /" + b"y" * 9000
            assert b" 431 " in await talk(port, path)
            many = b"".join(b"x%d: y\r\n" % index for index in range(2000))
            assert b" 431 " in await talk(port, start + many + b"\r\n")
            assert b" 200 " in await talk(port, start + b"x: " + b"y" * 7000 + b"\r\n\r\n")
            twice = start + b"\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for request in (twice, start + large + b"\r\n\r\n"):
                writer.write(request)
                answer = await reader.readuntil(b"\r\n")
                if b" 200 " in answer:
                    length = await reader.readuntil(b"\r\n\r\n")
                    size = int(length.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    await reader.readexactly(size)
            assert b" 431 " in answer
            writer.close()

    run(body)


def test_a_body_beyond_the_configured_size_is_refused() -> None:
    async def body(admin: Admin) -> None:
        path = f"{V2}/namespaces/public/default/properties"
        assert (await admin.put(path, {"a": "b" * 2000})).status == 413
        assert (await admin.put(path, {"a": "b"})).status == 204

    run(body, httpMaxRequestSize="1000")


def test_who_sends_a_request_drop_by_drop_does_not_hold_a_connection_for_long() -> None:
    async def body(admin: Admin) -> None:
        async with serving(
            admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web
        ) as port:
            head = b"PUT /admin/v2/persistent/public/default/x HTTP/1.1\r\nhost: localhost\r\n"
            assert await talk(port, head) == b"", "the head does not end: closed without a word"
            typed = b"content-type: application/json\r\n"
            slow = await talk(port, head + typed + b"content-length: 9\r\n\r\n{")
            assert b" 408 " in slow
            whole = await talk(port, head + typed + b"content-length: 2\r\n\r\n{}")
            assert b" 204 " in whole

    run(body, httpServerIdleTimeout="300")


def test_a_page_of_another_site_changes_nothing() -> None:
    async def body(admin: Admin) -> None:
        path = f"{V2}/persistent/public/default/x"
        for origin in ("http://evil.example", "null", "http://localhost:9999", "", "http://[bad"):
            page = replace(admin, headers={"origin": origin, "host": "localhost:8080"})
            refused = await page.put(path)
            assert refused.status == 403, origin
        own = {"origin": "http://localhost:8080", "host": "localhost:8080"}
        assert (await replace(admin, headers=own).put(path)).status == 204
        assert (await admin.delete(path)).status == 204, "tools send no origin"

    run(body)


def test_a_site_whose_name_was_pointed_at_this_machine_reads_nothing() -> None:
    async def body(admin: Admin) -> None:
        async with serving(
            admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web
        ) as port:

            async def status(host: str) -> bytes:
                head = f"GET /admin/v2/clusters HTTP/1.1\r\nhost: {host}\r\n\r\n"
                return (await talk(port, head.encode())).split(b" ")[1]

            assert await status("evil.example") == b"403"
            assert await status(f"evil.example:{port}") == b"403"
            assert await status("localhost.evil.example") == b"403"
            for host in ("localhost", f"127.0.0.1:{port}", "[::1]:80", "broker.test:8080"):
                assert await status(host) == b"200", host

    run(body)


def test_where_credentials_are_asked_for_any_name_will_do() -> None:
    async def main() -> None:
        async with secure_broker() as admin:
            assert admin.api.web.names is None

    asyncio.run(main())


# ---------------------------------------------------------------------- secrets and files


def test_no_secret_is_told_in_logs_answers_or_settings(caplog: pytest.LogCaptureFixture) -> None:
    secret = SETTINGS["tokenSecretKey"].removeprefix("data:;base64,")
    bad = sign_token({"sub": "root", "exp": 1}, KEY)

    async def main() -> list[str]:
        told: list[str] = []
        async with secure_broker() as admin:
            for token in (bad, "nonsense." + bad, TOKENS[Who.STRANGER]):
                caller = replace(admin, token=token)
                for path in ("/admin/v2/tenants", "/admin/v2/nothing", "/metrics"):
                    told.append((await caller.get(path)).body.decode())
                peer = Peer(admin, token)
                request = wire.CommandProducer(topic="t/n/x", producer_id=1, request_id=1)
                told += [str(each) for each in await peer.ask(request)]
            root = replace(admin, token=TOKENS[Who.SUPER])
            for path in ("configuration/runtime", "configuration/values", "internal-configuration"):
                told.append((await root.get(f"/admin/v2/brokers/{path}")).body.decode())
            topic = "/admin/v2/persistent/t/n/x/stats"
            told.append((await root.get(topic)).body.decode())
            runtime = (await root.get("/admin/v2/brokers/configuration/runtime")).json
            assert runtime["tokenSecretKey"] == "********"
        return told

    with caplog.at_level("DEBUG"):
        told = asyncio.run(main())
    lines = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    for text in [*told, *lines]:
        for hidden in (secret, KEY.key.decode(), bad, bad.split(".")[2], TOKENS[Who.STRANGER]):
            assert hidden not in text


def test_a_broker_tells_its_data_to_its_user_alone(tmp_path: Path) -> None:
    with MagnetarBroker(data=tmp_path / "data") as broker:
        url = f"{broker.admin_url}/admin/v2/persistent/public/default/x"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=20).close()
        found = [broker.data, *broker.data.rglob("*")]
        assert len(found) > 4
        for path in found:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def test_listening_where_others_reach_needs_authentication_or_a_word(tmp_path: Path) -> None:
    broker = MagnetarBroker(data=tmp_path / "data", arguments=["--bind", "0.0.0.0"])
    done = subprocess.run(broker.command(), capture_output=True, timeout=60, text=True)
    broker.close()
    assert done.returncode == 1
    assert "refused to listen on 0.0.0.0 without authentication" in done.stderr
    assert "allowUnauthenticatedAccess=true" in done.stderr
    settings = {"allowUnauthenticatedAccess": True}
    with (
        MagnetarBroker(set=settings, arguments=["--bind", "0.0.0.0"]) as broker,
        urllib.request.urlopen(f"{broker.admin_url}/admin/v2/clusters", timeout=20) as reply,
    ):
        assert json.load(reply) == ["standalone"]
