"""A client that lives as long as a web application, which FastAPI and Starlette enter so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from magnetar import AlreadyClosedError, ConnectError, lifespan
from tests.unit.client.peer import Type, scripted_broker


def test_a_web_application_has_a_client_from_its_start_to_its_end() -> None:
    async def body() -> None:
        app = SimpleNamespace(state=SimpleNamespace())
        async with scripted_broker() as broker:
            run = lifespan(broker.url, description="shop")
            async with run(app):
                assert broker.bodies(Type.CONNECT)
                producer = await app.state.pulsar.producer("t")
                await producer.send(b"x")
            with pytest.raises(AlreadyClosedError):
                await producer.send(b"y")

    asyncio.run(body())


def test_an_application_does_not_start_without_its_broker() -> None:
    async def body() -> None:
        app = SimpleNamespace(state=SimpleNamespace())
        async with scripted_broker() as broker:
            url = broker.url
        with pytest.raises(ConnectError):
            async with lifespan(url)(app):
                raise AssertionError("it started")

    asyncio.run(body())
