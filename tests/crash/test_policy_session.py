"""Policies are changed while the broker loses its session, and its system topic is opened anew."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path

import pytest

from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.testing.zookeeper import shared_zookeeper
from tests.crash.member import LONG_S, running

PATH = "/admin/v2/persistent/public/default/orders"
RETRIABLE = (409, 503)


def call(port: int, method: str, path: str, body: object = None) -> tuple[int, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        return response.status, json.loads(content) if content else None
    finally:
        connection.close()


@pytest.mark.parametrize("backend", ["system-topic", "metadata-store"])
def test_no_policy_that_was_confirmed_is_lost_with_a_session(backend: str, tmp_path: Path) -> None:
    server = shared_zookeeper()
    setting = f"topicPoliciesServiceClassName={backend}"

    async def body() -> None:
        async with running(tmp_path / "data", server.new_url(), setting) as broker:
            port = broker.web_port
            store = broker.service.store
            assert isinstance(store, ZookeeperStore)

            async def ask(method: str, path: str, body: object = None) -> tuple[int, object]:
                return await asyncio.to_thread(call, port, method, path, body)

            assert (await ask("PUT", PATH))[0] == 204
            confirmed = 0
            for number in range(1, 61):
                if number % 20 == 10:
                    expiring = asyncio.ensure_future(
                        asyncio.to_thread(server.expire, store.session)
                    )
                status, answer = await ask("POST", f"{PATH}/maxProducers", number)
                assert status == 204 or status in RETRIABLE, (status, answer)
                if status == 204:
                    confirmed = number
                    told = await ask("GET", f"{PATH}/maxProducers")
                    assert told == (200, number) or told[0] in RETRIABLE, told
                if number % 20 == 0:
                    await expiring
            assert confirmed > 0
            async with asyncio.timeout(LONG_S):
                while (await ask("POST", f"{PATH}/maxProducers", 100))[0] != 204:
                    await asyncio.sleep(0.05)
            assert await ask("GET", f"{PATH}/maxProducers?applied=true") == (200, 100)
            topic = broker.service.catalog.topics.get("persistent://public/default/orders")
            if topic is not None:
                assert topic.policy.max_producers == 100

    asyncio.run(body())
