"""What the factories of a client return: to be awaited, or entered with `async with`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    async def close(self) -> None: ...


H = TypeVar("H", bound=Closable)


class Opening(Generic[H]):
    """`handle = await opening`, or `async with opening as handle`, which closes it at the end."""

    def __init__(self, open: Callable[[], Awaitable[H]]) -> None:
        self._open = open
        self._handle: H | None = None

    async def open(self) -> H:
        """The same as a coroutine, for `create_task`."""
        return await self._open()

    if not TYPE_CHECKING:  # to mypy it has nothing but what stands here

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"It is not open yet and has no {name!r}: await it first, or enter it with"
                " `async with`"
            )

    def __await__(self) -> Generator[Any, Any, H]:
        return self._open().__await__()

    async def __aenter__(self) -> H:
        self._handle = await self._open()
        return self._handle

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            await self._handle.close()
