from __future__ import annotations

import asyncio
import logging

import pytest

from magnetar.client.error import ConnectError
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.client.retry import insist
from magnetar.runtime.clock import LoopClock


class StepClock(LoopClock):
    """Half a second passes between two looks."""

    def __init__(self) -> None:
        self._now = 0.0

    def now_ms(self) -> int:
        return round(self._now * 1000)

    def monotonic(self) -> float:
        self._now += 0.5
        return self._now


def test_a_broker_that_cannot_be_reached_is_named_once_while_it_is_tried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse() -> None:
        raise ConnectError("Cannot connect to pulsar://b:1: connection refused")

    async def body() -> None:
        policy = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.001))
        with pytest.raises(ConnectError):
            await insist(refuse, clock=StepClock(), policy=policy, timeout=10)

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    [record] = caplog.records
    assert "pulsar://b:1: connection refused; trying again for up to 10 s" in record.message
