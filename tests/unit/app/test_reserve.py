from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from magnetar.app.reserve import LOW_BYTES, RESERVE_BYTES, Reserve
from magnetar.app.standalone import serving
from magnetar.errors import BrokerError, StorageFull, TopicNotFound
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.log import Log
from magnetar.model.name import parse_topic
from magnetar.model.position import EARLIEST, Position

PLENTY = 100 * RESERVE_BYTES
TOPIC = parse_topic("persistent://public/default/orders")


def test_the_reserve_is_given_up_when_nothing_else_is_left_and_taken_again(tmp_path: Path) -> None:
    room = PLENTY
    reserve = Reserve(tmp_path, lambda path: room)
    file = tmp_path / "RESERVE"
    reserve.update()
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES
    assert reserve.trouble is None
    room = LOW_BYTES - 1
    reserve.update()
    assert not file.exists()
    assert reserve.trouble is not None
    assert str(tmp_path) in reserve.trouble
    room = RESERVE_BYTES  # what was given up is not yet room enough
    reserve.update()
    assert not file.exists()
    assert reserve.trouble is not None
    room = PLENTY
    reserve.update()
    assert file.exists()
    assert reserve.trouble is None


async def append(log: Log, entry: bytes) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(first: Position | None, error: BrokerError | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    log.flights.append(PlainRun([entry], [1], answer))
    await done


def ask_ready(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/admin/v2/brokers/ready")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_broker_starts_on_a_full_disk_serves_reads_and_lets_topics_be_deleted(
    tmp_path: Path,
) -> None:
    async def fill() -> None:
        async with serving(data=tmp_path / "data", port=0, web_port=0) as server:
            topic: Any = await server.service.catalog.load_topic(TOPIC, create=True)
            await topic.log.cursors.open("keeper", start=EARLIEST)
            await append(topic.log, b"kept")
            assert await asyncio.to_thread(ask_ready, server.web_port) == (200, b"ok")

    async def body() -> None:
        async with serving(
            data=tmp_path / "data", port=0, web_port=0, room=lambda path: 0
        ) as server:
            assert not (tmp_path / "data" / "RESERVE").exists()
            status, text = await asyncio.to_thread(ask_ready, server.web_port)
            assert status == 503
            assert "the disk of" in json.loads(text)["reason"]
            topic: Any = await server.service.catalog.load_topic(TOPIC)
            run = await topic.log.reader.read(EARLIEST, 9, 999)
            assert run is not None
            assert run.data == [b"kept"]
            with pytest.raises(StorageFull, match="is full"):
                await append(topic.log, b"refused")
            await server.service.catalog.delete_topic(TOPIC, force=True)
            with pytest.raises(TopicNotFound):
                await server.service.catalog.load_topic(TOPIC)

    asyncio.run(fill())
    asyncio.run(body())
