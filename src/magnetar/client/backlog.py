"""Messages that arrived and wait for the application, kept in the runs they came in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from typing import Any, Generic, TypeVar

from magnetar.client.message import Message
from magnetar.client.message_id import MessageId
from magnetar.client.topic_consumer import TopicConsumer

O = TypeVar("O")  # noqa: E741  who takes them


class _Run(Generic[O]):
    __slots__ = ("generation", "messages", "owner", "part", "start")

    def __init__(self, owner: O, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        self.owner = owner
        self.part = part
        self.generation = part.generation
        self.messages = messages
        self.start = 0


class Backlog(Generic[O]):
    """In the order of arrival. What came under an older generation of its part is void."""

    def __init__(self) -> None:
        self._runs: deque[_Run[O]] = deque()

    def __bool__(self) -> bool:
        return any(run.part.generation == run.generation for run in self._runs)

    def __len__(self) -> int:
        valid = (run for run in self._runs if run.part.generation == run.generation)
        return sum(len(run.messages) - run.start for run in valid)

    def put(self, owner: O, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        self._runs.append(_Run(owner, part, messages))

    def take_one(self) -> tuple[O, TopicConsumer, Message[Any]] | None:
        while self._runs:
            run = self._runs[0]
            if run.part.generation != run.generation:
                self._runs.popleft()
                continue
            messages = run.messages
            if not isinstance(messages, list):  # made all at once: they are taken one by one
                messages = run.messages = list(messages)
            message = messages[run.start]
            run.start += 1
            if run.start == len(messages):
                self._runs.popleft()
            return run.owner, run.part, message
        return None

    def take_run(self, limit: int) -> tuple[O, TopicConsumer, Sequence[Message[Any]]] | None:
        """Up to `limit` messages of one part, as many as came together."""
        while self._runs:
            run = self._runs[0]
            if run.part.generation != run.generation:
                self._runs.popleft()
                continue
            end = run.start + limit
            messages = run.messages[run.start : end]
            run.start = end
            if end >= len(run.messages):
                self._runs.popleft()
            return run.owner, run.part, messages
        return None

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        """Drop what came in these entries; returns how many messages were not taken. The messages
        of a run came in one entry.
        """
        kept: deque[_Run[O]] = deque()
        dropped = 0
        for run in self._runs:
            if run.part is not part or run.messages[0].id.entry not in entries:
                kept.append(run)
            elif part.generation == run.generation:
                dropped += len(run.messages) - run.start
        self._runs = kept
        return dropped

    def drop(self, part: TopicConsumer) -> None:
        self._runs = deque(run for run in self._runs if run.part is not part)

    def clear(self) -> None:
        self._runs.clear()
