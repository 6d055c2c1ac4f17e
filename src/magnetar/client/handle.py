"""What an application opens: `async with` closes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Handle(ABC):
    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
