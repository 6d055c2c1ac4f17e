"""Things that are being changed: whoever comes meanwhile waits for the outcome."""

from __future__ import annotations

import asyncio


class Change:
    """Marks a name as being changed for as long as the body runs."""

    def __init__(self, changing: dict[str, asyncio.Future[None]], name: str) -> None:
        self._changing = changing
        self._name = name

    async def __aenter__(self) -> None:
        while (earlier := self._changing.get(self._name)) is not None:
            await asyncio.shield(earlier)
        self._changing[self._name] = asyncio.get_running_loop().create_future()

    async def __aexit__(self, *_: object) -> None:
        self._changing.pop(self._name).set_result(None)
