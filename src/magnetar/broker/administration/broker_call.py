"""Calls of other brokers of the cluster."""

from __future__ import annotations

import msgspec

from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.broker_call import BrokerCalls, Request


@carries_out("broker_calls.answer")
async def answer_call(calls: BrokerCalls, call: str, request: Request) -> Document:
    """Refusals are part of the answer: the caller raises them as this broker would."""
    reply = await calls.answer(call, request)
    answer: dict[str, object] = msgspec.to_builtins(reply)
    return answer
