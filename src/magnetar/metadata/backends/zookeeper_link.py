"""Between the event loop and kazoo's thread: requests gathered on the way out, what comes back
taken in order, the loop woken once for all that came together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.protocol.states import KazooState

from magnetar.errors import InvalidPath, StoreUnavailable
from magnetar.metadata.backends.zookeeper_request import CREATED, Request
from magnetar.metadata.backends.zookeeper_sasl import ZookeeperLogin
from magnetar.metadata.backends.zookeeper_wire import Client, ZookeeperTls
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.worker import run_in_thread

_ANSWERS: Final = (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
"""What a server says of a node; everything else means that it did not do what was asked."""

_OUTSTANDING_MAX: Final = 65_536
CONNECTED: Final[str] = KazooState.CONNECTED


@dataclass(frozen=True, slots=True)
class OwnEvents:
    """What the events of one transaction are, beyond what was asked for.

    `events` happen for the tree's sake and are no change of a record. `grown` are paths that got a
    first child; they are notified right after the record itself.
    """

    events: frozenset[tuple[int, str]] = frozenset()
    record: str = ""
    grown: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[tuple[int, str]]:
        return self.events | {(CREATED, self.record)} if self.record else self.events


@dataclass(slots=True, eq=False)
class Reply:
    """One request and what comes of it; `arrive` and `fail` are called on kazoo's thread."""

    link: Link
    future: asyncio.Future[Any]
    deadline: float
    own_events: OwnEvents | None = None
    note: Callable[[Any], None] | None = None
    here: bool = False
    value: Any = None
    error: Exception | None = None

    def arrive(self, value: Any) -> None:
        self.value, self.here = value, True
        self.link.inbox.append(self)

    def fail(self, error: Exception) -> None:
        self.error, self.here = error, True
        self.link.inbox.append(self)

    def set_exception(self, error: Exception) -> None:
        """For kazoo, when the connection ends."""
        self.fail(error)
        self.link.wake()

    @property
    def is_given_up(self) -> bool:
        return self.future.done()

    @property
    def is_done_well(self) -> bool:
        """A transaction that failed answers with the exceptions of its parts."""
        if self.error is not None:
            return False
        return not isinstance(self.value, list) or not any(
            isinstance(each, Exception) for each in self.value
        )

    def resolve(self) -> None:
        if self.future.done():  # the caller stopped waiting
            return
        if self.error is None:
            self.future.set_result(self.value)
        elif isinstance(self.error, _ANSWERS):
            self.future.set_exception(self.error)
        elif isinstance(self.error, BadArgumentsError):
            self.future.set_exception(InvalidPath("ZooKeeper refuses the path"))
        else:
            name = type(self.error).__name__
            self.future.set_exception(StoreUnavailable(f"ZooKeeper did not answer: {name}"))


@dataclass(frozen=True, slots=True)
class Event:
    kind: int
    path: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The connection or the session went or came."""

    state: str


class Listener(Protocol):
    def on_event(self, kind: int, path: str, told_by: OwnEvents | None, hushed: bool) -> None:
        """A node changed; `hushed` when an own transaction did it for the tree's sake."""

    def on_turn(self, state: str) -> None: ...


@dataclass(slots=True, eq=False)
class Link:
    """Belongs to the event loop it was opened on."""

    hosts: Final[str]
    session_timeout_s: Final[float]
    deadline_s: Final[float]
    listener: Final[Listener]
    clock: Final[Clock]
    tls: Final[ZookeeperTls | None] = None
    login: Final[ZookeeperLogin | None] = None
    inbox: Final[deque[Reply | Event | Turn]] = field(default_factory=deque)
    session: tuple[int, bytes] = (0, b"")
    """The number of the last session and what proves that it is ours."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _outgoing: list[tuple[Request, Reply]] = field(default_factory=list)
    _outstanding: deque[Reply] = field(default_factory=deque)
    _claims: dict[tuple[int, str], list[Reply]] = field(default_factory=dict)
    """Outstanding transactions by the events that may be their doing."""
    _awake: bool = False
    _timer: Timer | None = None
    _client: Client = field(init=False)

    def __post_init__(self) -> None:
        self._client = Client(
            self.hosts,
            session_timeout_s=self.session_timeout_s,
            tls=self.tls,
            login=self.login,
            on_event=lambda kind, path: self.inbox.append(Event(kind, path)),
            on_batch=self.wake,
            monotonic=self.clock.monotonic,
        )
        self._client.add_listener(self._on_state)

    @property
    def proved_s(self) -> float:
        """When the last thing was sent that a server answered."""
        return self._client.proved_s

    @property
    def refusal(self) -> str:
        """Why servers take no login; empty when they do."""
        return self._client.refusal

    def start(self) -> None:
        self._client.start_async()

    async def stop(self) -> None:
        """End the session, or give it up when no server answers."""
        await run_in_thread(self._stop)
        self._drain()
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    def ask(
        self,
        request: Request,
        own_events: OwnEvents | None = None,
        note: Callable[[Any], None] | None = None,
    ) -> asyncio.Future[Any]:
        """Send with what else is asked in this turn of the loop.

        `note` is called with the answer in its place among the events, which a caller that awaits
        it is not.

        The answer is what the request reads, one of kazoo's exceptions about a node, or
        StoreUnavailable.
        """
        if len(self._outstanding) >= _OUTSTANDING_MAX:
            raise StoreUnavailable("Too many metadata requests are waiting")
        future: asyncio.Future[Any] = self._loop.create_future()
        reply = Reply(self, future, self.clock.monotonic() + self.deadline_s, own_events, note)
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append((request, reply))
        self._outstanding.append(reply)
        if own_events is not None:
            for key in own_events.keys:
                self._claims.setdefault(key, []).append(reply)
        if self._timer is None:
            self._timer = self.clock.call_at(reply.deadline, self._on_time)
        return future

    def wake(self) -> None:
        """Have the loop look into the inbox; on kazoo's thread."""
        if self.inbox and not self._awake:
            self._awake = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                pass  # the loop has ended, and with it everyone who could be notified

    def _on_state(self, state: str) -> None:
        self.session = self._client.client_id or self.session
        self.inbox.append(Turn(state))
        self.wake()

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        self._client.post(outgoing)

    def _drain(self) -> None:
        self._awake = False
        inbox = self.inbox
        while inbox:
            item = inbox[0]
            if isinstance(item, Event):
                if not self._tell(item):
                    return
                inbox.popleft()
            elif isinstance(item, Reply):
                inbox.popleft()
                if item.own_events is not None:
                    self._drop_claims(item, item.own_events)
                if item.note is not None and item.error is None:
                    item.note(item.value)
                item.resolve()
            else:
                inbox.popleft()
                if not is_connected(item.state):
                    self._give_up_unsent()
                self.listener.on_turn(item.state)
        while self._outstanding and self._outstanding[0].future.done():
            self._outstanding.popleft()

    def _give_up_unsent(self) -> None:
        """Fail what was asked just after the connection went; kazoo failed what was asked before.

        It will never be sent, so callers need not wait for their deadline.
        """
        for reply in self._outstanding:
            if not reply.here and not reply.future.done():
                reply.future.set_exception(StoreUnavailable("The connection to ZooKeeper is lost"))
                if reply.own_events is not None:
                    self._drop_claims(reply, reply.own_events)

    def _tell(self, event: Event) -> bool:
        """False when only an answer that has not come yet says whose doing the event is."""
        key = (event.kind, event.path)
        for reply in self._claims.get(key, ()):
            if not reply.here:
                return False
            if reply.is_done_well:
                assert reply.own_events is not None  # or it claims nothing
                self.listener.on_event(*key, reply.own_events, key in reply.own_events.events)
                return True
        self.listener.on_event(*key, None, False)
        return True

    def _drop_claims(self, reply: Reply, own_events: OwnEvents) -> None:
        for key in own_events.keys:
            claims = self._claims.get(key, [])
            if reply in claims:
                claims.remove(reply)
            if not claims:
                self._claims.pop(key, None)

    def _on_time(self) -> None:
        """Give up what was not answered in time, and look again when the next is due."""
        now, released = self.clock.monotonic(), False
        while self._outstanding and (
            self._outstanding[0].future.done() or self._outstanding[0].deadline <= now
        ):
            reply = self._outstanding.popleft()
            if not reply.future.done():
                sentence = f"ZooKeeper did not answer within {self.deadline_s:g} s"
                reply.future.set_exception(StoreUnavailable(sentence))
            if reply.own_events is not None and not reply.here:
                self._drop_claims(reply, reply.own_events)
                released = True
        self._timer = None
        if self._outstanding:
            self._timer = self.clock.call_at(self._outstanding[0].deadline, self._on_time)
        if released:
            self._drain()


def is_connected(state: str) -> bool:
    return state == CONNECTED


def is_session_lost(state: str) -> bool:
    return bool(state == KazooState.LOST)
