"""The policies of topics as they were read last, for when they cannot be read."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from magnetar.broker.topicpolicy.contract import TopicPoliciesService
from magnetar.errors import BrokerError, PoliciesUnavailable
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import takes_policies
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

Pair: TypeAlias = tuple[TopicPolicies | None, TopicPolicies | None]
"""What was set for the cluster, and for every cluster."""

_LOAD_S_MAX: Final = 10
"""How long a topic that is loaded waits for its policies before it is loaded without."""
_KNOWN_MAX: Final = 100_000

_log = Logger(__name__)


def _tell(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "nothing answers in time"
    return error.sentence if isinstance(error, BrokerError) else repr(error)


class LastKnownPolicies:
    """Reads both scopes of a topic. Topics without policies take no memory here."""

    def __init__(self, backend: TopicPoliciesService, config: Configuration, clock: Clock) -> None:
        self._clock = clock
        self._backend = backend
        self._config = config
        self._known: dict[TopicName, Pair] = {}
        self.is_required = False
        """Whether topics do not load without their policies. Where brokers share topics, the next
        attempt, here or at another broker, may well succeed."""

    async def load(self, topic: TopicName) -> Pair:
        """Both scopes as they are now."""
        if not takes_policies(topic):
            return None, None
        local, shared = await asyncio.gather(
            self._backend.get(topic, is_global=False), self._backend.get(topic, is_global=True)
        )
        self._known.pop(topic, None)
        if local is not None or shared is not None:
            if len(self._known) >= _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[topic] = local, shared
        return local, shared

    async def load_or_recall(self, topic: TopicName) -> tuple[Pair, bool]:
        """The topic's policies and True, or what was known last and False; never waits long.

        Raise PoliciesUnavailable instead where topics do not load without their policies.
        """
        wait_s = min(_LOAD_S_MAX, self._config.topicPoliciesCacheInitTimeoutSeconds)
        try:
            async with self._clock.timeout(wait_s):
                return await self.load(topic), True
        # A backend may be of another package, and raise whatever it wants.
        except Exception as error:
            if self.is_required:
                raise PoliciesUnavailable(
                    f"The policies of {topic} cannot be read: {_tell(error)}"
                ) from error
            known = self._known.get(topic)
            _log.error(
                "topic is without its own policies",
                topic=str(topic),
                instead="last known" if known is not None else "the namespace's",
                reason=repr(error),
            )
            return known or (None, None), False

    def forget(self, topic: TopicName) -> None:
        self._known.pop(topic, None)

    def forget_namespace(self, namespace: NamespaceName) -> None:
        for topic in [topic for topic in self._known if topic.namespace == namespace]:
            del self._known[topic]
