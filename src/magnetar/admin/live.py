"""Pages that stay up to date: one answer, or one after the other as server-sent events.

A watched page must cost the broker little, whatever it shows: each answer is timed, and the next
one waits so long that all of them together take a small share of a core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Final

import msgspec

from magnetar.admin.request import Call
from magnetar.admin.response import Response, json_response
from magnetar.broker.administration.registry import Live
from magnetar.errors import BrokerError, TooManyRequests
from magnetar.model.document import format_document

EVENTS: Final = "text/event-stream"
_SHARE_MAX: Final = 0.0075
"""Of one core, by one page. What is not timed, such as sending, comes on top."""
_INTERVAL_S: Final = 1.0
_INTERVAL_S_MAX: Final = 15.0
_LOOK_S: Final = 0.2
"""How often it is asked whether something changed that is shown at once."""
_LIFE_S: Final = 60.0
"""A page asks anew after that with its credentials, which may have run out."""
_QUIET_S: Final = 15.0
"""Something is sent at least so often: a reader that is gone is found out."""
_STREAMS_MAX: Final = 64
_encoder: Final = msgspec.json.Encoder()


class LiveStreams:
    """All that are open on a broker. Each holds one of its HTTP connections."""

    def __init__(self) -> None:
        self._open = 0

    async def answer(self, live: Live, call: Call, is_closing: Callable[[], bool]) -> Response:
        """Send what is shown once, or, to who takes events, whenever it differs from before: soon
        after the mark changed, else at intervals. What is refused first is the answer, what is
        refused later ends the stream.
        """
        if EVENTS not in call.headers.get("accept", "").lower():
            return json_response(await live.load())
        if self._open >= _STREAMS_MAX:
            raise TooManyRequests(f"{_STREAMS_MAX} pages are open on this broker already")
        started = time.thread_time()
        first = _encode(await live.load())
        cost_s = time.thread_time() - started
        headers = (("cache-control", "no-store"), ("x-accel-buffering", "no"))
        body = self._events(first, cost_s, live, lambda: is_closing() or call.is_gone())
        return Response(HTTPStatus.OK, body, EVENTS, headers)

    async def _events(
        self, first: bytes, cost_s: float, live: Live, is_over: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            yield first
            last, last_s = first, time.monotonic()
            end_s = last_s + _LIFE_S
            while time.monotonic() < end_s:
                await _wait(cost_s, live.mark, is_over)
                if is_over():
                    return
                started = time.thread_time()
                try:
                    event = _encode(await live.load())
                except BrokerError as refusal:
                    yield _encode({"reason": refusal.sentence}, "refused")
                    return
                # The loop's thread did other work meanwhile: the cost is at most this.
                cost_s = time.thread_time() - started
                now = time.monotonic()
                if event != last:
                    yield event
                    last, last_s = event, now
                elif now - last_s > _QUIET_S:
                    yield b": still here\n\n"
                    last_s = now
            yield _encode({}, "again")
        finally:
            self._open -= 1


async def _wait(cost_s: float, mark: Callable[[], object], is_over: Callable[[], bool]) -> None:
    seen = mark()
    pause_s = min(_INTERVAL_S_MAX, max(_INTERVAL_S, cost_s / _SHARE_MAX))
    until = time.monotonic() + pause_s
    while mark() == seen and not is_over():
        left_s = until - time.monotonic()
        if left_s <= 0:
            return
        await asyncio.sleep(min(left_s, _LOOK_S))


def _encode(value: object, event: str = "state") -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _encoder.encode(format_document(value)))
