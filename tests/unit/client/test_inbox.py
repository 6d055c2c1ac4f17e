"""What threads take, and when its source knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from magnetar.client.inbox import Inbox, InboxSource
from magnetar.runtime.clock import SYSTEM


class Told(InboxSource):
    """A topic of one segment that writes down what the application has."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(inbox)
        self.part: Any = SimpleNamespace(segment=0, generation=0, counts_time=False)
        self.consumers: Any = SimpleNamespace(parts={0: self.part})
        self.received: list[list[str]] = []

    def on_received(self, part: Any, messages: Sequence[Any]) -> None:
        self.received.append([each.data for each in messages])

    def deliver(self, *texts: str) -> None:
        self.put(self.part, [SimpleNamespace(data=text, progress=None) for text in texts])


def test_what_threads_take_is_told_in_runs() -> None:
    inbox = Inbox(SYSTEM)
    source = Told(inbox)
    source.deliver("a", "b", "c")
    source.deliver("d")
    taken: list[Any] = [inbox.claim() for _ in range(2)]
    assert [each.data for each in taken if each] == ["a", "b"] and not source.received
    inbox.settle()
    assert source.received == [["a", "b"]] and inbox.received == 2
    while inbox.claim() is not None:
        pass
    inbox.settle()
    inbox.settle()
    assert source.received == [["a", "b"], ["c"], ["d"]] and inbox.received == 4


def test_what_was_taken_before_delivery_starts_over_counts_and_the_rest_is_void() -> None:
    inbox = Inbox(SYSTEM)
    source = Told(inbox)
    source.deliver("a", "b")
    assert inbox.claim() is not None
    source.start_over(source.part)
    assert source.received == [["a"]] and not inbox.is_ready and inbox.claim() is None
    source.deliver("b")
    again: Any = inbox.claim()
    assert again is not None and again.data == "b"
    inbox.settle()
    assert source.received == [["a"], ["b"]]


def test_an_application_on_the_loop_is_told_of_at_the_end_of_what_came_together() -> None:
    inbox = Inbox(SYSTEM)
    source = Told(inbox)
    source.deliver("a", "b")
    assert inbox.take() is not None and not source.received
    assert inbox.take() is not None and source.received == [["a", "b"]]
    source.deliver("c", "d")
    assert inbox.take() is not None
    source.start_over(source.part)
    assert source.received == [["a", "b"], ["c"]] and inbox.take() is None
    source.hears_each = True
    source.deliver("d", "e")
    assert inbox.take() is not None and source.received[-1] == ["d"]
