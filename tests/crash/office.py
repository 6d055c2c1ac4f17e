"""Administration while everything else goes on: what was answered holds, what was not is either."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from magnetar.model.position import Position
from magnetar.wire.command import CommandSendReceipt, position_of
from tests.crash.link import ANSWER_S_MAX, Link, LinkLost, encode_send

NAMESPACE = "public/default"


class WebRefused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Web:
    """The admin interface, one connection a request; LinkLost when the broker went away."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __call__(self, method: str, path: str, body: object = None) -> Any:
        return await asyncio.to_thread(self._ask, method, path, body)

    def _ask(self, method: str, path: str, body: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"/admin/v2/{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise LinkLost(repr(error)) from None
        finally:
            connection.close()
        if answer.status >= 300:
            raise WebRefused(answer.status, f"{method} {path}: {answer.status} {text!r}")
        return json.loads(text) if text else None


@dataclass(slots=True)
class Fact:
    """What is known of a topic; None where a request was not answered."""

    exists: bool | None = None
    is_terminated: bool | None = False
    last: Position | None = None
    subscriptions: dict[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Desk:
    """What one action works with."""

    link: Link
    name: str
    note: Callable[[str], None]


class Office:
    """Makes and removes topics and subscriptions, and ends some topics for good."""

    def __init__(self, web: Web, trimmed: str) -> None:
        self._web = web
        self._trimmed = trimmed
        self._numbers = count()
        self._producers = count(1000)
        self.facts: dict[str, Fact] = {}

    async def run(self, link: Link, random: Random, note: Callable[[str], None]) -> None:
        while True:
            known = [name for name, fact in self.facts.items() if fact.exists]
            action = random.choice(ACTIONS if len(known) > 2 else (Office._create,))
            await action(self, Desk(link, random.choice(known) if known else "", note))

    async def check(self) -> None:
        """Compare with what the broker says now, and take that for what is known."""
        listed = set(await self._web("GET", f"persistent/{NAMESPACE}"))
        for name, fact in self.facts.items():
            exists = f"persistent://{NAMESPACE}/{name}" in listed
            assert fact.exists in (None, exists), (name, fact)
            fact.exists = exists
            if exists:
                await self._check_topic(name, fact)

    async def _check_topic(self, name: str, fact: Fact) -> None:
        found = set(await self._web("GET", f"{path_of(name)}/subscriptions"))
        for subscription, exists in fact.subscriptions.items():
            assert exists in (None, subscription in found), (name, fact, found)
        assert found <= set(fact.subscriptions), (name, fact, found)
        fact.subscriptions = dict.fromkeys(found, True)
        stats = await self._web("GET", f"{path_of(name)}/internalStats")
        is_terminated = stats["state"] == "Terminated"
        assert fact.is_terminated in (None, is_terminated), (name, fact, stats)
        fact.is_terminated = is_terminated
        if fact.last is not None:
            ledger, _, entry = stats["lastConfirmedEntry"].partition(":")
            assert Position(int(ledger), int(entry)) == fact.last, (name, fact, stats)

    async def _create(self, desk: Desk) -> None:
        name = f"office-{next(self._numbers)}"
        fact = self.facts[name] = Fact()
        desk.note("admin")
        await self._web("PUT", path_of(name))
        fact.exists = True

    async def _subscribe(self, desk: Desk) -> None:
        subscriptions = self.facts[desk.name].subscriptions
        subscription = f"s{len(subscriptions)}"
        if subscription in subscriptions:
            return
        subscriptions[subscription] = None
        desk.note("admin")
        await self._web("PUT", f"{path_of(desk.name)}/subscription/{subscription}")
        subscriptions[subscription] = True

    async def _unsubscribe(self, desk: Desk) -> None:
        subscriptions = self.facts[desk.name].subscriptions
        for subscription, exists in subscriptions.items():
            if exists:
                subscriptions[subscription] = None
                desk.note("admin")
                await self._web("DELETE", f"{path_of(desk.name)}/subscription/{subscription}")
                subscriptions[subscription] = False
                return

    async def _terminate(self, desk: Desk) -> None:
        fact = self.facts[desk.name]
        if fact.is_terminated is not False or not any(fact.subscriptions.values()):
            return  # without a subscription nothing keeps the entry that is looked for later
        fact.last = None  # one more entry may be there even if its receipt does not come
        last = await self._publish(desk.link, desk.name)
        fact.is_terminated = None
        fact.last = last
        desk.note("admin")
        ended = await self._web("POST", f"{path_of(desk.name)}/terminate")
        assert (ended["ledgerId"], ended["entryId"]) == last, (desk.name, ended, last)
        fact.is_terminated = True

    async def _publish(self, link: Link, name: str) -> Position:
        answered: asyncio.Future[CommandSendReceipt] = asyncio.get_running_loop().create_future()
        producer = next(self._producers)
        link.on_receipt[producer] = answered.set_result
        link.on_producer_closed[producer] = lambda: None
        await link.create_producer(producer, f"persistent://{NAMESPACE}/{name}", name)
        link.write(encode_send(producer, name, 0, [b"last"]))
        async with asyncio.timeout(ANSWER_S_MAX):
            return position_of((await answered).message_id)

    async def _trim(self, desk: Desk) -> None:
        desk.note("admin")
        await self._web("POST", f"{path_of(self._trimmed)}/trim")

    async def _delete(self, desk: Desk) -> None:
        fact = self.facts[desk.name]
        fact.exists = None
        for subscription in fact.subscriptions:
            fact.subscriptions[subscription] = None  # they go first, one by one
        desk.note("admin")
        await self._web("DELETE", f"{path_of(desk.name)}?force=true")
        fact.exists = False


ACTIONS: tuple[Callable[[Office, Desk], Awaitable[None]], ...] = (
    Office._create,
    Office._subscribe,
    Office._unsubscribe,
    Office._terminate,
    Office._trim,
    Office._delete,
)


def path_of(name: str) -> str:
    return f"persistent/{NAMESPACE}/{name}"
