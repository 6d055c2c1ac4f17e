"""What holds the event loop is measured, and named while it does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from magnetar.runtime.metric import MetricText
from magnetar.runtime.watchdog import Watchdog, describe, names_work


def hold(watchdog: Watchdog) -> None:
    """Hold the loop until the watchdog has seen it."""
    before, give_up = watchdog.sights, time.monotonic() + 30
    while watchdog.sights == before and time.monotonic() < give_up:
        sum(range(1000))


async def warned(
    caplog: pytest.LogCaptureFixture, is_wanted: Callable[[dict[str, Any]], bool]
) -> None:
    async with asyncio.timeout(30):
        while not any(
            is_wanted(getattr(record, "fields", {}))
            for record in caplog.records
            if record.getMessage() == "event loop was held"
        ):
            await asyncio.sleep(0.005)


def test_work_is_named_by_the_innermost_function_that_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(warn_ms=20)

    @names_work(lambda local: f"order {local['number']}")
    async def on_order(number: int) -> None:
        await asyncio.sleep(0)
        hold(watchdog)

    @names_work(lambda local: "shop")
    async def serve() -> None:
        await on_order(7)

    async def main() -> None:
        with watchdog.running():
            await serve()
            await warned(caplog, lambda fields: fields["work"] == "order 7")

    asyncio.run(main())
    [line] = [
        record.fields  # type: ignore[attr-defined]
        for record in caplog.records
        if getattr(record, "fields", {}).get("work") == "order 7"
    ]
    assert line["held_ms"] > 20 and "hold" in line["at"]
    assert not [each for each in threading.enumerate() if each.name == "watchdog"]


def test_how_long_the_loop_was_held_is_a_metric() -> None:
    watchdog = Watchdog(warn_ms=20)

    async def main() -> None:
        with watchdog.running():
            hold(watchdog)
            while "held_seconds_count{} 0" in render():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.02)

    def render() -> str:
        text = MetricText()
        watchdog.write(text, {"cluster": "c"})
        return text.render()

    asyncio.run(main())
    lines = render().splitlines()
    assert "# TYPE magnetar_event_loop_held_seconds histogram" in lines
    assert any(line.startswith("# HELP magnetar_event_loop_held_seconds ") for line in lines)
    [longest] = [line for line in lines if line.startswith("magnetar_event_loop_held_longest")]
    assert float(longest.split()[-1]) > 0.02


def test_a_label_that_is_not_ready_leaves_the_name_to_the_caller() -> None:
    @names_work(lambda local: str(local["missing"]))
    def inner() -> str:
        import sys

        return describe(sys._getframe()).work

    @names_work(lambda local: "outer")
    def outer() -> str:
        return inner()

    assert outer() == "outer"
    assert describe(None).work == ""


def test_zero_watches_nothing() -> None:
    async def main() -> None:
        with Watchdog(warn_ms=0).running():
            assert not [each for each in threading.enumerate() if each.name == "watchdog"]

    asyncio.run(main())
