"""The topics one consumer consumes: those it was given, or those a namespace has that match."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Generic, NamedTuple, Protocol, TypeVar

from magnetar.client.consumer_set import ConsumerSet, SegmentRead
from magnetar.client.error import AlreadyClosedError, PulsarError
from magnetar.client.retry import run_together
from magnetar.client.session import Session
from magnetar.client.watch import make_backoff
from magnetar.errors import InvalidName
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class Member(Protocol):
    """One topic's share of a consumer."""

    @property
    def topic(self) -> str:
        """The `topic://` name."""

    @property
    def consumers(self) -> ConsumerSet: ...

    def reads(self) -> Mapping[SegmentId, SegmentRead]:
        """Every segment there is, with or without a consumer here."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


M_co = TypeVar("M_co", bound=Member, covariant=True)
M = TypeVar("M", bound=Member)


class MakeMember(Protocol[M_co]):
    def __call__(self, name: TopicName, *, create: bool) -> M_co: ...


class TopicsWatch(Protocol):
    """Which topics match now."""

    @property
    def topics(self) -> Set[str]: ...

    async def open(self) -> None: ...

    def close(self) -> None: ...


class ConsumerTarget(NamedTuple):
    """What a consumer is asked to consume: topics by name, or what a watch finds."""

    topics: tuple[TopicName, ...]
    title: str = ""
    """Of what is watched."""
    watch: Callable[[Session, Callable[[], None]], TopicsWatch] | None = None
    """Calls back after each change."""

    @property
    def is_of_many(self) -> bool:
        return self.watch is not None or len(self.topics) > 1


class TopicSet(Generic[M]):
    """Topics that were named must all be there. Those found are tried until they open or go."""

    def __init__(
        self,
        session: Session,
        target: ConsumerTarget,
        make: MakeMember[M],
    ) -> None:
        self.is_of_many = target.is_of_many
        self._session = session
        self._make = make
        self._target = target
        self.is_paused = False
        """Whether topics that come later ask for nothing either."""
        self._members: dict[str, M] = {}
        """By the name each was opened under."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._watch: TopicsWatch | None = None
        if target.watch is not None:
            self._watch = target.watch(session, self._on_change)

    @property
    def title(self) -> str:
        return self._target.title or ", ".join(self.topics)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(member.topic for member in self.members)

    @property
    def members(self) -> tuple[M, ...]:
        return tuple(self._members.values())

    def find(self, topic: str | None) -> M | None:
        """The member of that topic; without a name the only one there is."""
        if topic is None:
            return next(iter(self._members.values()), None) if len(self._members) == 1 else None
        return next((each for each in self._members.values() if each.topic == topic), None)

    async def open(self) -> None:
        try:
            if self._watch is not None:
                await self._watch.open()
                await asyncio.gather(*(self._try(name) for name in sorted(self._watch.topics)))
            else:
                await run_together(self._add_named(topic) for topic in self._target.topics)
                self._members = {
                    each.full: self._members[each.full] for each in self._target.topics
                }
        except BaseException:
            await self.close()
            raise

    async def _add_named(self, topic: TopicName) -> None:
        member = self._make(topic, create=True)
        await member.open()
        self._members[topic.full] = member

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        tasks = tuple(self._opening.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        members = tuple(self._members.values())
        self._members.clear()
        await asyncio.gather(*(member.close() for member in members))

    def lose(self, member: M) -> bool:
        """A member ended by itself: whether it will be opened again."""
        if self._watch is None:
            return False
        for name in [key for key, each in self._members.items() if each is member]:
            del self._members[name]
            self._session.scope.start(member.close(), f"close {name}")
            self._on_change()
        return True

    def _on_change(self) -> None:
        assert self._watch is not None
        wanted = self._watch.topics
        for name in [each for each in self._members if each not in wanted]:
            member = self._members.pop(name)
            self._session.scope.start(member.close(), f"close {name}")
        for name in [each for each in self._opening if each not in wanted]:
            self._opening.pop(name).cancel()
        for name in sorted(wanted):
            if name not in self._members and name not in self._opening:
                task = self._session.scope.start(self._insist(name), f"open {name}")
                self._opening[name] = task

    async def _try(self, name: str) -> None:
        """Open one of the first topics; one that refuses is tried again on the side."""
        try:
            await self._add(name)
        except AlreadyClosedError:
            raise
        except PulsarError as error:
            _log.warning("topic not opened", topic=name, reason=error)
            self._opening[name] = self._session.scope.start(self._insist(name), f"open {name}")

    async def _insist(self, name: str) -> None:
        backoff = make_backoff(self._session)
        own = asyncio.current_task()
        try:
            while True:
                try:
                    await self._add(name)
                    return
                except AlreadyClosedError:
                    return
                except PulsarError as error:
                    _log.warning("topic not opened", topic=name, reason=error)
                await self._session.clock.sleep(backoff.next_s())
        finally:
            if self._opening.get(name) is own:
                del self._opening[name]

    async def _add(self, name: str) -> None:
        try:
            topic = parse_topic(name)
        except InvalidName as error:
            _log.warning("topic not understood", topic=name, reason=error.sentence)
            return
        member = self._make(topic, create=False)
        if self.is_paused:
            member.consumers.pause()
        await member.open()
        if self.is_paused:  # it may have changed meanwhile
            member.consumers.pause()
        else:
            member.consumers.resume()
        assert self._watch is not None
        if name in self._watch.topics:
            self._members[name] = member
        else:
            await member.close()
