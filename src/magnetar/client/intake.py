"""Entries in the order they came, although some need a key or a schema first."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from magnetar.client.dead_letter import Source
from magnetar.client.interceptor import intercept_message
from magnetar.client.message import Message
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.value import Unprepared
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import CommandMessage

Accept = Callable[[CommandMessage, bytes], None]


class Intake:
    """An entry that is not ready makes those behind it wait; permits bound how many there are."""

    def __init__(self, scope: TaskScope, name: str, accept: Accept) -> None:
        self._scope = scope
        self._name = name
        self._accept = accept
        self._waiting: deque[tuple[CommandMessage, bytes]] = deque()
        self._round = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, command: CommandMessage, entry: bytes) -> None:
        """Hand the entry on now, or in its turn."""
        if self._waiting:
            self._waiting.append((command, entry))
            return
        try:
            self._accept(command, entry)
        except Unprepared as need:
            self._waiting.append((command, entry))
            self._scope.start(self._go_on(need.prepare, self._round), f"prepare {self._name}")

    def clear(self) -> list[tuple[CommandMessage, bytes]]:
        """Forget what waits; returns it."""
        dropped = list(self._waiting)
        self._waiting.clear()
        self._round += 1
        return dropped

    async def _go_on(self, prepare: Callable[[], Awaitable[None]], current: int) -> None:
        await prepare()
        while self._round == current and self._waiting:
            command, entry = self._waiting[0]
            try:
                self._accept(command, entry)
            except Unprepared as need:
                await need.prepare()
            else:
                if self._round == current:  # accepting may have started everything over
                    self._waiting.popleft()


def select_messages(
    settings: ConsumerSettings, messages: Sequence[Message[Any]], source: Source
) -> Sequence[Message[Any]]:
    """What the application gets of these, as it gets it; dead letters go their own way."""
    dead_letters = settings.dead_letters
    if dead_letters is not None:
        alive = []
        for message in messages:
            if dead_letters.claims(message):
                dead_letters.take(message, source)
            else:
                alive.append(message)
        messages = alive
    if settings.interceptors:
        messages = [intercept_message(settings.interceptors, message) for message in messages]
    return messages
