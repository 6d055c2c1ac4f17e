"""The blocking producer: messages cross to the loop in runs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from threading import Condition, Lock
from typing import Any, Final, Generic, TypeVar, Unpack

from magnetar.client.background_loop import BackgroundLoop, Burst, SyncHandle
from magnetar.client.handle import ProducerStats
from magnetar.client.keyword import describe
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import Outcome
from magnetar.client.producer import AsyncProducer
from magnetar.client.publication import NO_OPTIONS, SendOptions
from magnetar.client.segment_producer import Item

T = TypeVar("T")

_PENDING: Final = "PENDING"
_FINISHED: Final = "FINISHED"
_lock = Lock()
"""Around the making of a condition, and around an end without one: one of the two is first."""


def _renew_lock() -> None:
    """The parent's loop may have held it, and has no thread here that would let go of it."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_renew_lock)


class SendFuture(Future[T]):
    """One of `concurrent.futures` that makes its condition variable when it is first needed.

    Most submitted messages are confirmed while no thread waits for them, and to make and notify a
    condition takes longer than all else that a submit does.
    """

    _state = _PENDING
    _result = _exception = None
    _lazy: Condition | None = None

    def __init__(self) -> None:
        """What it begins with stands above: nothing is set until it ends."""

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        with _lock:
            if self._lazy is None:
                self._waiters: list[Any] = []
                self._done_callbacks: list[Any] = []
                self._lazy = Condition()
            return self._lazy

    def done(self) -> bool:
        return self._state != _PENDING

    def cancelled(self) -> bool:
        return self._state not in (_PENDING, _FINISHED)

    def cancel(self) -> bool:
        """Forget the outcome; a message that was sent is stored all the same."""
        return super().cancel() and not self.set_running_or_notify_cancel()

    def set_result(self, result: T) -> None:
        with _lock:
            if self._lazy is None:  # no thread waits for it
                self._result, self._state = result, _FINISHED
                return
        try:
            super().set_result(result)
        except InvalidStateError:
            pass  # a thread has cancelled it

    def set_exception(self, exception: BaseException | None) -> None:
        with _lock:
            if self._lazy is None:
                self._exception, self._state = exception, _FINISHED
                return
        try:
            super().set_exception(exception)
        except InvalidStateError:
            pass  # a thread has cancelled it


class Producer(SyncHandle[AsyncProducer[T]], Generic[T]):
    """Made by `client.producer`; use it as a context manager. Threads may share it; the messages of
    each are sent in the order of its calls.
    """

    def __init__(self, loop: BackgroundLoop, inner: AsyncProducer[T]) -> None:
        super().__init__(loop, inner)
        self._burst = Burst(loop)
        self._enter, self._enter_plain = self._on_prepared, self._on_plain
        self._lock = threading.Lock()
        self._count = self._bytes = 0
        """What was prepared and has not reached the loop yet."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def partitions(self) -> int:
        """How many partitions a regular topic has; 0 for a topic without."""
        return self._call(lambda: self._inner.partitions)

    @property
    def last_sequence_id(self) -> int:
        """The highest one confirmed; -1, or the initial one, before that."""
        return self._call(lambda: self._inner.last_sequence_id)

    @property
    def stats(self) -> ProducerStats:
        return self._call(lambda: self._inner.stats)

    @describe(SendOptions)
    def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish, and return the id once the broker has stored it; None is a tombstone."""
        if options.get("transaction") is not None:  # which lives on the loop
            return self._run(self._inner.send(value, **options))
        return self._loop.run_outcome(lambda sent: self._inner.begin_send(value, options, sent))

    @describe(SendOptions)
    def submit(self, value: T | None, **options: Unpack[SendOptions]) -> Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once.

        One that fails is reported by its future, and by `flush`.
        """
        return self._submit(value, options, waits=self._inner._waits_for_room)

    def send_many(self, values: Iterable[T | None]) -> None:
        """Publish all of them, in order as `submit` does, and return once the broker has stored
        them. They have no options, no futures and no ids: this is the way to send very many.

        Raises SendFailedError when some are not stored.
        """
        self._run(self._inner.send_many(values))

    @describe(SendOptions)
    def send_nowait(self, value: T | None, **options: Unpack[SendOptions]) -> Future[MessageId]:
        """Publish without waiting for room; raises QueueFullError when too many wait."""
        return self._submit(value, options, waits=False)

    def flush(self) -> None:
        """Wait until everything sent before is stored or has failed.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        self._burst.wake()
        self._run(self._inner.flush())

    def close(self) -> None:
        """Flush and leave; what is not confirmed by the operation timeout fails.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        Does nothing after the client's own close, or in a process that was forked.
        """
        self._burst.wake()
        super().close()

    def _submit(self, value: T | None, options: SendOptions, *, waits: bool) -> Future[MessageId]:
        self._loop.check()
        if options.get("transaction") is not None:  # which lives on the loop
            return self._submit_within(value, options, waits=waits)
        sent: SendFuture[MessageId] = SendFuture()
        inner, admission = self._inner, self._inner._admission
        item, data = None, b""
        if options or value is None or not inner._joins:
            item = inner._prepare(value, options, sent)
            item.is_submitted = True
            work: tuple[Callable[[Sequence[Any]], object], object] = self._enter, item
            size = item.size
        else:
            data = inner._encode_plain(value)
            work, size = (self._enter_plain, (data, sent)), len(data)
        while True:
            with self._lock:
                if admission.has_room(size, behind=self._count, ahead=self._bytes):
                    self._burst.call(*work)
                    # Only now: room that Ctrl-C leaves counted for nothing would be gone for good.
                    self._count += 1
                    self._bytes += size
                    return sent
            if not waits:
                raise admission.full()
            item = item or Item(data, sent, None, NO_OPTIONS, size, is_submitted=True)
            if self._run(admission.enter_or_wait(item)):
                return sent

    def _submit_within(
        self, value: T | None, options: SendOptions, *, waits: bool
    ) -> Future[MessageId]:
        async def body() -> asyncio.Future[MessageId]:
            sent: asyncio.Future[MessageId]
            if waits:
                sent = await self._inner.submit(value, **options)
            else:
                sent = self._inner.send_nowait(value, **options)
            return sent

        return self._loop.start(body())

    def _on_prepared(self, messages: Sequence[Item]) -> None:
        """On the loop."""
        self._inner._admission.enter_all_later(messages)
        self._give_back(len(messages), sum(message.size for message in messages))

    def _on_plain(self, submitted: Sequence[tuple[bytes, Outcome]]) -> None:
        """On the loop; these say nothing but their data."""
        self._inner._enter_plain(submitted)
        self._give_back(len(submitted), sum(len(data) for data, _ in submitted))

    def _give_back(self, count: int, size: int) -> None:
        """Once they are counted where they are now: nothing may come between."""
        with self._lock:
            self._count -= count
            self._bytes -= size
