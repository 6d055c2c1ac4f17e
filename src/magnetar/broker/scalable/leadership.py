"""Leadership of a topic: the election of its controller, and the turns in which it acts.

Every time leadership comes, its duties begin anew. Whatever a turn could not finish is tried again,
by the next turn or soon after.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from magnetar.broker.scalable.turn import Turns
from magnetar.errors import BrokerError, NoOwner, StoreClosed, TopicNotFound
from magnetar.metadata.election import Election, ElectionState
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import TopicName
from magnetar.model.position import Term
from magnetar.model.scalable import controller_path
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

T = TypeVar("T")

_log = Logger(__name__)


def leader_identity(broker_id: str) -> bytes:
    """What a leader writes of itself."""
    return json.dumps(broker_id).encode()


class Duty(Protocol):
    """What a leader does; all of it runs in turns."""

    @property
    def is_idle(self) -> bool:
        """Whether no change is under way."""

    @property
    def is_gone(self) -> bool:
        """Whether there is nothing to lead any more, as far as clients can see."""

    async def begin(self) -> None:
        """Read everything and finish what an earlier leader began."""

    async def resume(self) -> None:
        """Go on with a change that is under way."""

    async def resign(self) -> None:
        """This broker does not lead any more."""


class Leadership:
    def __init__(
        self, store: MetadataStore, topic: TopicName, broker_id: str, duty: Duty, *, clock: Clock
    ) -> None:
        self._topic = topic
        self._duty = duty
        self._turns = Turns(f"controller {topic}")
        self._scope = TaskScope(f"controller {topic}")
        self._retries = Reconciler(
            self._scope, "retry", self._retry, clock=clock, retried=BrokerError
        )
        self._begun = Term(0)
        """The term whose duties have begun."""
        self._election = Election(
            store,
            controller_path(topic),
            leader_identity(broker_id),
            clock=clock,
            on_change=self._on_election,
        )

    @property
    def term(self) -> Term:
        return self._election.term

    @property
    def is_leading(self) -> bool:
        election = self._election
        return election.state is ElectionState.LEADING and self._begun == election.term > 0

    @property
    def is_busy(self) -> bool:
        return self._turns.is_busy or self._retries.is_busy

    async def ready(self) -> None:
        """Return when this broker leads and has begun; raise NoOwner when another leads."""
        if self.is_leading:
            return
        if await self._election.elect() is not ElectionState.LEADING:
            leader = self._election.leader_if_known or b"no broker"
            raise NoOwner(f"{self._topic} is controlled by {leader.decode(errors='replace')}")
        await self._turns.run(self._begin)

    async def run(self, body: Callable[[], Awaitable[T]]) -> T:
        return await self._turns.run(body)

    def start(self, body: Callable[[], Awaitable[None]]) -> None:
        self._turns.start(body)

    async def lead(self, body: Callable[[], Awaitable[T]]) -> T:
        """Take a turn as leader. What an earlier turn could not finish is finished first."""

        async def turn() -> T:
            self._check()
            if not self._duty.is_idle:
                await self.resume()
                self._check()
            try:
                return await body()
            finally:
                if not self._duty.is_idle:
                    self._retries.request_later()

        return await self._turns.run(turn)

    async def resume(self) -> None:
        """Go on with a change that is under way, now and, if need be, again soon."""
        try:
            await self._duty.resume()
        finally:
            if not self._duty.is_idle:
                self._retries.request_later()

    def _check(self) -> None:
        if self._duty.is_gone:
            raise TopicNotFound(f"Scalable topic not found: {self._topic}")
        if not self.is_leading:
            raise NoOwner(f"This broker is not the controller of {self._topic}")

    def _on_election(self, state: ElectionState) -> None:
        if state is ElectionState.LEADING:
            self._turns.start(self._begin_or_retry)
        else:
            self._begun = Term(0)
            self._turns.start(self._duty.resign)

    async def _begin(self) -> None:
        if not self.is_leading and self._election.state is ElectionState.LEADING:
            term = self._election.term
            await self._duty.begin()
            self._begun = term
            _log.info("controls topic", topic=self._topic.full, term=term)

    async def _begin_or_retry(self) -> None:
        try:
            await self._begin()
        except (TopicNotFound, StoreClosed):
            pass  # there is nothing to lead
        except BrokerError as failure:
            _log.warning("controller not ready", topic=self._topic.full, reason=failure.sentence)
            self._retries.request_later()

    async def _retry(self) -> None:
        """A change that was begun is not left alone."""
        if self._election.state is not ElectionState.LEADING:
            return
        try:
            await self._turns.run(self._begin)
            if not self._duty.is_idle:
                await self._turns.run(self._duty.resume)
        except (StoreClosed, TopicNotFound):
            pass  # there is nothing to lead
        except BrokerError as failure:
            topic = self._topic.full
            _log.warning("change not finished", topic=topic, reason=failure.sentence)
            raise

    async def retire(self) -> None:
        """Be no candidate any more; the turn that calls this may go on."""
        self._retries.close()
        await self._election.close()
        self._begun = Term(0)

    async def close(self) -> None:
        """A change under way is left where it is: the next leader goes on with it."""
        self._retries.close()
        await self._scope.close()
        await self._turns.close()
        await self.retire()
