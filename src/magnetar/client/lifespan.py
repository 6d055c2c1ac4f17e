"""A client for as long as a web application runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack

from magnetar.client.client import AsyncPulsarClient, ClientOptions

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
