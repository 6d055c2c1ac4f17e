"""Runs the script over REST against a broker in memory and writes down what it answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from magnetar import __version__
from tests.unit.admin.assembly import Admin, Reply, admin_of_new_broker
from tests.unit.broker.broker_place import StillClock
from tests.unit.golden.request import PUBLISH, Request

_JSON: Final = "application/json"
_HEADERS: Final = re.compile(r"content-type|location|allow|x-pulsar-.*", re.IGNORECASE)
_LINE_MAX: Final = 100
_TURNS: Final = 100


async def rest_transcript(
    requests: Iterable[Request],
    prepare: Callable[[Admin], Awaitable[None]] | None = None,
    **settings: Any,
) -> list[str]:
    """One text for each exchange; the clock stands still during one and moves between two."""
    clock = StillClock()
    exchanges = []
    async with admin_of_new_broker(clock=clock, **settings) as admin:
        if prepare is not None:
            await prepare(admin)
            await settle()
        for request in requests:
            clock.pass_s(1)
            exchanges.append(await _exchange(admin, request))
            if request.method != "GET":
                await settle()
    return exchanges


async def settle() -> None:
    """Let what the last call began come to its end: with everything in memory it waits for turns
    of the loop alone.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _exchange(admin: Admin, request: Request) -> str:
    header = f"[{request.header}]" if request.header else ""
    title = " ".join(filter(None, (header, request.method, request.path, request.body)))
    body = (request.body or "").encode()
    if request.method == PUBLISH:
        return f"> {title}\n< {await admin.publish(request.path, body)}\n"
    name, _, value = request.header.partition(": ")
    special = {name.replace("-", "_"): value} if name else {}
    reply = await admin.call(request.method, request.path, raw=body, **special)
    headers = sorted(
        f"< {name.lower()}: {value}"
        for name, value in reply.headers.items()
        if _HEADERS.fullmatch(name) and value != _JSON
    )
    lines = [f"> {title}", f"< {reply.status}", *headers, _format_body(request.path, reply)]
    return "\n".join(lines).strip("\n") + "\n"


def _format_body(path: str, reply: Reply) -> str:
    text = reply.body.decode("utf-8", "backslashreplace")
    if path == "/metrics":  # numbers of the process and of each moment
        return "\n".join(line for line in text.splitlines() if line.startswith("# TYPE"))
    if path == "/openapi.json":  # the table of routes, without names of operations and schemas
        return "\n".join(_outline(json.loads(text)))
    text = text.replace(__version__, "<version>")
    if reply.headers.get("content-type") == _JSON and text:
        value = json.loads(text)
        line = json.dumps(value, ensure_ascii=False)
        return line if len(line) <= _LINE_MAX else json.dumps(value, ensure_ascii=False, indent=1)
    return text


def _outline(description: dict[str, Any]) -> Iterable[str]:
    for path, methods in sorted(description["paths"].items()):
        for method, operation in sorted(methods.items()):
            query = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
            body = " body" * ("requestBody" in operation)
            yield f"{method.upper()} {path}{'?' * bool(query)}{'&'.join(query)}{body}"
