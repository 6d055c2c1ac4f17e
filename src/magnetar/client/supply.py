"""How an application goes through messages: `async for` ends when they are closed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Self, TypeVar

from magnetar.client.error import AlreadyClosedError
from magnetar.client.handle import Handle
from magnetar.client.quantity import Duration

M = TypeVar("M")


class Supply(Handle, Generic[M]):
    @abstractmethod
    async def receive(self, timeout: Duration | None = None) -> M | None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M:
        try:
            message = await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message
