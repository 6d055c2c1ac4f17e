"""How an application goes through messages: `async with` closes, `async for` ends when closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from magnetar.client.error import AlreadyClosedError
from magnetar.client.quantity import Duration

M = TypeVar("M")


class Supply(ABC, Generic[M]):
    @abstractmethod
    async def receive(self, timeout: Duration | None = None) -> M | None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M:
        try:
            message = await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message
