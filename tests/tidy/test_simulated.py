"""Time, chance and threads are handed in to what a simulation runs on one thread and virtual time,
from one seed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.tidy.source import Source, written_sources

ROOMS = ("broker", "client", "ledger", "metadata")
CLOCK = "ask a Clock (runtime/clock.py)"
CHANCE = "ask Clock.chance (runtime/clock.py)"
SECRET = f"{CHANCE}; a secret has its reason in EXEMPT"
WORKERS = "take Workers (runtime/worker.py)"
POOL = "concurrent.futures.ThreadPoolExecutor"
# A module, or a name in one, that is used for types at most, and what to use instead.
NAMES: Mapping[str, str] = {
    "time": CLOCK,
    "random": CHANCE,
    "secrets": SECRET,
    "os.urandom": SECRET,
    "uuid.uuid1": CHANCE,
    "uuid.uuid4": CHANCE,
    "asyncio.sleep": "Clock.sleep, or yield_to_loop (runtime/task.py)",
    "asyncio.timeout": "Clock.timeout",
    "asyncio.timeout_at": "Clock.timeout_at",
    "asyncio.wait_for": "Clock.timeout",
    "asyncio.to_thread": "run_in_thread (runtime/worker.py)",
    "asyncio.TimerHandle": "Timer (runtime/clock.py)",
    "threading.Thread": WORKERS,
    "threading.Timer": "Clock.call_later",
    "multiprocessing": WORKERS,
    "concurrent.futures.ProcessPoolExecutor": WORKERS,
    POOL: WORKERS,
}
LOOP_METHODS: Mapping[str, str] = {
    "call_later": "Clock.call_later",
    "call_at": "Clock.call_at",
    "time": CLOCK,
    "run_in_executor": WORKERS,
}
LOOP = re.compile(r"(\b|_)loop(\(\))?$")
# File and name, and why no simulation needs it.
EXEMPT: Mapping[tuple[str, str], str] = {
    ("broker/authentication/basic.py", "secrets.token_bytes"): "the key of password marks",
    ("client/cipher.py", "os.urandom"): "the nonce of a cipher",
    ("metadata/backends/zookeeper_wire.py", "secrets.token_hex"): "the nonce of a login",
    ("client/admin/network.py", POOL): "the blocking client has no event loop",
    ("client/background_loop.py", "threading.Thread"): "the blocking client runs a loop of its own",
    ("client/blocking_consumer.py", "threading.Thread"): "handlers of the blocking client",
}


def find_advice(name: str) -> str | None:
    """For a name, or for the module it is of."""
    parts = name.split(".")
    heads = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((NAMES[head] for head in heads if head in NAMES), None)


def uses(source: Source) -> Iterator[tuple[str, str]]:
    """Each use of what is to be handed in, with the advice and its line."""
    for each in source.imports():
        # `from random import Random` hides what is called afterwards.
        if each.name is not None and (advice := find_advice(each.target)) and not each.for_types:
            yield each.target, f"line {each.line}: {advice}"
    modules = {each.module for each in source.imports() if each.name is None}
    for node in _outside_of_types(source.tree):
        if isinstance(node, ast.Call) and _has_timeout(node):
            yield "asyncio.wait(timeout)", f"line {node.lineno}: Clock.timeout"
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in modules:
            name = f"{node.value.id}.{node.attr}"
            if (advice := find_advice(name)) is not None:
                yield name, f"line {node.lineno}: {advice}"
        elif node.attr in LOOP_METHODS and LOOP.search(owner := ast.unparse(node.value)):
            yield f"{owner}.{node.attr}", f"line {node.lineno}: {LOOP_METHODS[node.attr]}"


def _has_timeout(call: ast.Call) -> bool:
    is_wait = isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "asyncio.wait"
    return is_wait and any(each.arg == "timeout" for each in call.keywords)


def _outside_of_types(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _outside_of_types(child)


def test_time_chance_and_threads_are_handed_in_where_a_simulation_runs() -> None:
    found = {
        (source.inside, name): advice
        for source in written_sources()
        if source.room in ROOMS
        for name, advice in uses(source)
    }
    wrong = {place: advice for place, advice in found.items() if place not in EXEMPT}
    assert not wrong
    assert EXEMPT.keys() <= found.keys(), "an exemption without a use"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time\nnow = time.monotonic()\n", ["time.monotonic"]),
        ("from time import monotonic\n", ["time.monotonic"]),
        ("import random\nmake = random.Random\n", ["random.Random"]),
        ("import random\ndef draw(chance: random.Random) -> float: ...\n", []),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)\n", ["asyncio.sleep"]),
        ("import asyncio\ntask: asyncio.Task[None]\nasyncio.wait([task])\n", []),
        ("import asyncio\nasyncio.wait([task], timeout=1)\n", ["asyncio.wait(timeout)"]),
        ("import os\nos.urandom(4), os.getpid()\n", ["os.urandom"]),
        ("self._loop.call_later(1, f)\n", ["self._loop.call_later"]),
        ("asyncio.get_running_loop().time()\n", ["asyncio.get_running_loop().time"]),
        ("self._clock.call_later(1, f), moment.time()\n", []),
        (f"from concurrent.futures import {POOL.rpartition('.')[2]}, Future\n", [POOL]),
        ("from uuid import UUID\nimport uuid\nuuid.UUID(int=1)\n", []),
    ],
)
def test_uses_of_what_is_handed_in_are_seen(
    tmp_path_factory: pytest.TempPathFactory, text: str, expected: list[str]
) -> None:
    path = tmp_path_factory.mktemp("source") / "example.py"
    path.write_text(text)
    assert [name for name, _ in uses(Source(path))] == expected
