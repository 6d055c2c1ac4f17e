"""Inputs of growing size, and what they cost the broker in processor time.

Work that is linear doubles when the input does; quadratic work takes four times as long. A step may
take three times as long as the one before: small times count as one floor, a measurement is the
best of several, and one that fails is made again, since the machine may be busy with others.
"""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any, TypeAlias

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand, body_of, encode_command
from tests.hostile.test_permission_matrix import Peer
from tests.unit.admin.assembly import Admin

Measure: TypeAlias = Callable[[int], Awaitable[float]]
"""What an input of that size costs, in seconds of the processor."""

GROWTH_MAX = 3.0
FLOOR_S = 0.02
LONGEST_S = 8.0
"""No input may hold the loop for so long; what does is stopped, so that a test fails and ends."""
TRIES = 4
TOPIC = "persistent://public/default/x"


class TooLong(Exception):
    """The broker did not come back."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def settle(admin: Admin, tasks: int) -> None:
    """Let the loop run until the requests are answered, or it is clear that they wait for more."""
    for _ in range(40):
        await asyncio.sleep(0)
    for _ in range(400):
        if len(admin.service.tasks) <= tasks:
            return
        await asyncio.sleep(0.005)


async def cost_of(admin: Admin, act: Callable[[], Awaitable[object] | None]) -> float:
    tasks = len(admin.service.tasks)
    gc.disable()  # its rounds would fall on whichever measurement comes just then
    start = time.process_time()
    try:
        with stopped_after(LONGEST_S):
            waiting = act()
            if waiting is not None:
                await waiting
            await settle(admin, tasks)
        return time.process_time() - start
    finally:
        gc.enable()


def ladder(first: int, last: int) -> list[int]:
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


async def find_growth(measure: Measure, sizes: Sequence[int]) -> str | None:
    """What is wrong with the growth of the cost, or None."""
    before = 0.0
    for size in sizes:
        taken = LONGEST_S
        for _ in range(TRIES):
            try:
                taken = min(taken, await measure(size))
            except TooLong:
                return f"{size}: no end within {LONGEST_S:.0f} s"
            if taken <= GROWTH_MAX * max(before, FLOOR_S):
                break
            # The one before may have been measured too short, and before the first there was none.
            before = max(before, await measure(size // 2))
        else:
            return f"{size}: {taken:.3f} s, after {before:.3f} s for half of it"
        before = taken
    return None


# ---------------------------------------------------------------------- commands


def leaves(kind: Descriptor, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields whose size a client chooses, however deep; no message is looked for in itself."""
    for field in kind.fields:
        here = (*path, field.name)
        if field.is_repeated or field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            yield here
        if field.message_type is not None and field.name not in path:
            yield from leaves(field.message_type, here)


_TEXTS = {
    "topic": TOPIC,
    "namespace": "public/default",
    "subscription": "s",
    "topics_pattern": "public/default/.*",
    "producer_name": "",
}


def complete(message: Message, index: int = 1) -> None:
    """Give every required field, and those that make the command go far, a value that is taken."""
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated or (message.HasField(field.name) and field.message_type is None):
            continue
        if not field.is_required and field.name not in ("request_id", *_TEXTS):
            if field.message_type is not None and message.HasField(field.name):
                complete(getattr(message, field.name), index)
            continue
        if field.message_type is not None:
            complete(getattr(message, field.name), index)
        elif field.type == field.TYPE_STRING:
            if text := _TEXTS.get(field.name, "x"):
                setattr(message, field.name, text)
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, b"x")
        elif field.enum_type is not None:
            setattr(message, field.name, field.enum_type.values[0].number)
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, False)
        else:
            setattr(message, field.name, index)


def grow(message: Message, path: tuple[str, ...], size: int) -> None:
    """Fill one field with about `size` bytes; elements differ, and no two follow each other."""
    field: FieldDescriptor = message.DESCRIPTOR.fields_by_name[path[0]]
    value = getattr(message, path[0])
    if len(path) > 1:
        inner = value.add() if field.is_repeated else value
        grow(inner, path[1:], size)
        complete(inner)
    elif field.is_repeated and field.message_type is not None:
        for index in range(size // 8):
            complete(value.add(), 2 * index)
    elif field.is_repeated:
        text = field.type == field.TYPE_STRING
        value.extend(f"x{index}" if text else -1 for index in range(size // 8))
    elif field.type == field.TYPE_STRING:
        setattr(message, path[0], _TEXTS.get(path[0], "") + "x" * size)
    else:
        setattr(message, path[0], b"x" * size)


def grown_command(kind: int, paths: Sequence[tuple[str, ...]], size: int) -> bytes:
    command = BaseCommand(type=BaseCommand.Type.Name(kind))
    body = body_of(command)
    body.SetInParent()
    for path in paths:
        grow(body, path, size)
    complete(body)
    return encode_command(command)


_numbers = count()


async def attached(admin: Admin, subscription: str = "") -> Peer:
    """A client with a producer and a consumer, for what needs one; both are numbered 1.

    What it acknowledges is no news the second time, so it has a subscription to itself.
    """
    peer = Peer(admin, None)
    peer.say(wire.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
    shared = wire.CommandSubscribe.Shared
    subscribe = wire.CommandSubscribe(
        topic=TOPIC,
        subscription=subscription or f"s-{next(_numbers)}",
        subType=shared,
        consumer_id=1,
        request_id=2,
        initialPosition=wire.CommandSubscribe.Earliest,
    )
    await peer.ask(subscribe)
    return peer


def measure_command(admin: Admin, kind: int, paths: Sequence[tuple[str, ...]]) -> Measure:
    async def measure(size: int) -> float:
        is_first = kind in (BaseCommand.PRODUCER, BaseCommand.SUBSCRIBE)
        peer = Peer(admin, None) if is_first else await attached(admin)
        await asyncio.sleep(0)
        data = grown_command(kind, paths, size)
        taken = await cost_of(admin, lambda: peer.connection.data_received(data))
        peer.wire.close()
        await asyncio.sleep(0)
        return taken

    return measure


# ---------------------------------------------------------------------- bodies of REST calls


def grown_values(schema: Any, size: int, deep: int = 3) -> Iterator[Any]:
    """JSON values that fit a schema, each with one part of about `size` bytes."""
    yield from _grown(msgspec.inspect.type_info(schema), size, deep)
    yield [0] * (size // 2)
    yield "x" * size
    yield {f"{index}": index for index in range(size // 16)}


def _grown(kind: Any, size: int, deep: int) -> Iterator[Any]:
    inspect = msgspec.inspect
    if deep == 0:
        return
    match kind:
        case inspect.StrType() | inspect.RawType() | inspect.AnyType():
            yield "x" * size
        case inspect.UnionType():
            for each in kind.types:
                yield from _grown(each, size, deep)
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            yield from _grown_list(kind.item_type, size, deep)
        case inspect.VarTupleType():
            yield from _grown_list(kind.item_type, size, deep)
        case inspect.DictType():
            small = least(kind.value_type, 0)
            yield {f"key-{index}": small for index in range(size // 16)}
            for value in _grown(kind.value_type, size, deep - 1):
                yield {"key": value}
        case inspect.StructType():
            known = {f.encode_name: least(f.type, 0) for f in kind.fields if f.required}
            for field in kind.fields:
                for value in _grown(field.type, size, deep - 1):
                    yield {**known, field.encode_name: value}


def _grown_list(item: Any, size: int, deep: int) -> Iterator[Any]:
    yield [least(item, index) for index in range(size // 16)]
    for value in _grown(item, size, deep - 1):
        yield [value]


def least(kind: Any, index: int) -> Any:
    """The smallest value of that kind; values of two indexes differ if they can."""
    inspect = msgspec.inspect
    match kind:
        case inspect.UnionType():
            return least(kind.types[0], index)
        case inspect.IntType() | inspect.FloatType():
            return index
        case inspect.BoolType():
            return False
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.StructType():
            return {f.encode_name: least(f.type, index) for f in kind.fields if f.required}
        case inspect.DictType():
            return {}
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return []
        case inspect.NoneType():
            return None
        case _:
            return f"x{index}"


def choose(draw: random.Random, cases: Sequence[Any]) -> Any:
    return cases[draw.randrange(len(cases))]
