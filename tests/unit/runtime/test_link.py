"""Two processes that ask each other, here as two ends in one loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import LedgerNotFound, StoreUnavailable
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.link import Frame, FrameDecoder, Kind, Link, encode_frame

FRAMES = st.lists(
    st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**40), st.text(), st.binary())
)


@given(FRAMES, st.lists(st.integers(1, 50)))
def test_frames_are_whole_however_they_were_cut(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, frames))
    decoder = FrameDecoder()
    found: list[Frame] = []
    for cut in [*cuts, len(data) or 1]:
        found += decoder.feed(data[:cut])
        data = data[cut:]
    found += decoder.feed(data)
    assert found == frames


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[Link, Link]]:
    clock = SystemClock()
    pair = Link(clock), Link(clock)
    for link, stream in zip(pair, socket.socketpair(), strict=True):
        await link.open(stream)
    try:
        yield pair
    finally:
        for link in pair:
            await link.close()


def run(body: Callable[[Link, Link], Coroutine[Any, Any, None]]) -> None:
    async def scoped() -> None:
        async with ends() as (one, other):
            await body(one, other)

    asyncio.run(scoped())


def test_a_notice_comes_before_the_answer_that_was_given_after_it() -> None:
    async def body(one: Link, other: Link) -> None:
        heard: list[bytes] = []
        one.on_notice = lambda name, body: heard.append(body)

        async def serve(name: str, body: bytes) -> bytes:
            other.tell("change", b"first")
            return body + b"!"

        other.serve = serve
        assert await one.ask("echo", b"word") == b"word!"
        assert heard == [b"first"]

    run(body)


def test_a_refusal_crosses_with_its_class_and_its_sentence() -> None:
    async def body(one: Link, other: Link) -> None:
        async def serve(name: str, body: bytes) -> bytes:
            raise LedgerNotFound("ledger 7 does not exist")

        other.serve = serve
        with pytest.raises(LedgerNotFound, match="ledger 7 does not exist"):
            await one.ask("describe")

    run(body)


def test_who_waits_for_a_process_that_ends_is_told() -> None:
    async def body(one: Link, other: Link) -> None:
        asked, lost = asyncio.Event(), asyncio.Event()

        async def serve(name: str, body: bytes) -> bytes:
            asked.set()
            return await asyncio.Future()

        other.serve, one.on_lost = serve, lost.set
        waiting = asyncio.ensure_future(one.ask("for ever"))
        await asked.wait()
        await other.close()
        with pytest.raises(StoreUnavailable, match="is gone"):
            await waiting
        await lost.wait()
        with pytest.raises(StoreUnavailable, match="is gone"):
            await one.ask("again")

    run(body)


def test_an_answer_that_does_not_come_in_time_is_not_waited_for() -> None:
    async def body(one: Link, other: Link) -> None:
        async def serve(name: str, body: bytes) -> bytes:
            return await asyncio.Future()

        other.serve = serve
        with pytest.raises(StoreUnavailable, match="no answer within"):
            await one.ask("slow", deadline_s=0.01)

    run(body)
