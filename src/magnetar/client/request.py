"""Questions to a broker, and the answers that come to them in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from magnetar.client.error import PulsarError, PulsarTimeoutError
from magnetar.runtime.clock import Clock
from magnetar.wire.command import BaseCommand

Type = BaseCommand.Type

ANSWERS: Final = frozenset(
    {
        Type.SUCCESS,
        Type.PRODUCER_SUCCESS,
        Type.LOOKUP_RESPONSE,
        Type.PARTITIONED_METADATA_RESPONSE,
        Type.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        Type.GET_LAST_MESSAGE_ID_RESPONSE,
        Type.GET_SCHEMA_RESPONSE,
        Type.GET_OR_CREATE_SCHEMA_RESPONSE,
        Type.ACK_RESPONSE,
        Type.CONSUMER_STATS_RESPONSE,
        Type.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
        Type.WATCH_TOPIC_LIST_SUCCESS,
    }
)


@dataclass(slots=True)
class _Waiting:
    expect: int
    answer: asyncio.Future[Any]
    limit: asyncio.Timeout | None = None


class Requests:
    """Those of one connection: ids are its own, and replies match by type and id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ids = count()
        self._waiting: dict[int, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def next_id(self) -> int:
        return next(self._ids)

    async def ask(
        self, body: Any, expect: int, send: Callable[[Any], None], *, timeout: float, whom: object
    ) -> Any:
        """Number the body, send it, and return the body of its answer."""
        id = body.request_id = next(self._ids)
        waiting = _Waiting(expect, asyncio.get_running_loop().create_future())
        self._waiting[id] = waiting
        try:
            async with self._clock.timeout(timeout) as limit:
                waiting.limit = limit
                send(body)
                return await waiting.answer
        except TimeoutError:
            kind = type(body).__name__.removeprefix("Command")
            raise PulsarTimeoutError(f"{whom} did not answer {kind} in time") from None
        finally:
            del self._waiting[id]

    def on_answer(self, kind: int, answer: Any) -> None:
        waiting = self._waiting.get(answer.request_id)
        if waiting is None or waiting.expect != kind or waiting.answer.done():
            return
        if kind == Type.PRODUCER_SUCCESS and not answer.producer_ready:
            # Queued behind another producer: the second answer comes when it is our turn.
            if waiting.limit is not None:
                waiting.limit.reschedule(None)
            return
        waiting.answer.set_result(answer)

    def refuse(self, id: int, refusal: PulsarError) -> None:
        waiting = self._waiting.get(id)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(refusal)

    def refuse_all(self, refusal: PulsarError) -> None:
        for id in self._waiting:
            self.refuse(id, refusal)
