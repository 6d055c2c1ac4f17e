"""The topics one consumer consumes: those it was given, or those a namespace has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from magnetar.client.error import AlreadyClosedError, PulsarError
from magnetar.client.scalable.consumer_set import ConsumerSet, SegmentRead
from magnetar.client.scalable.namespace import NamespaceWatch
from magnetar.client.scalable.watch import make_backoff
from magnetar.client.session import Session
from magnetar.errors import InvalidName
from magnetar.model.name import NamespaceName, TopicName, parse_topic
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


class TopicSet(Generic[M]):
    """Topics that were named must all be there. A namespace's are tried until they open or go."""

    def __init__(
        self,
        session: Session,
        make: MakeMember[M],
        *,
        topics: Sequence[TopicName] = (),
        namespace: NamespaceName | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        self._make = make
        self._named = tuple(topics)
        self._namespace = namespace
        self._members: dict[str, M] = {}
        """By the name each was opened under."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._watch: NamespaceWatch | None = None
        if namespace is not None:
            self._watch = NamespaceWatch(session, namespace, filters or {}, self._on_change)

    @property
    def title(self) -> str:
        if self._namespace is not None:
            return f"namespace://{self._namespace}"
        return ", ".join(self.topics)

    @property
    def is_of_many(self) -> bool:
        return self._namespace is not None or len(self._named) > 1

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(member.topic for member in self._members.values())

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
                for topic in self._named:
                    member = self._make(topic, create=True)
                    await member.open()
                    self._members[topic.full] = member
        except BaseException:
            await self.close()
            raise

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
        await member.open()
        assert self._watch is not None
        if name in self._watch.topics:
            self._members[name] = member
        else:
            await member.close()
