"""The policies of topics as they were read last, for when they cannot be read."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from magnetar.broker.topicpolicy.contract import TopicPoliciesService, TopicPolicyListener
from magnetar.errors import BrokerError
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import takes_policies
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log

Pair: TypeAlias = tuple[TopicPolicies | None, TopicPolicies | None]
"""What was set for the cluster, and for every cluster."""

_LOAD_S_MAX: Final = 10
"""How long a topic that is loaded waits for its policies before it goes on without."""
_KNOWN_MAX: Final = 100_000

_log = Log(__name__)


class Recollection:
    """Topics without policies take no room here."""

    def __init__(self, topic_policies: TopicPoliciesService, config: Configuration) -> None:
        self._topic_policies = topic_policies
        self._config = config
        self._known: dict[TopicName, Pair] = {}

    async def load(self, topic: TopicName) -> Pair:
        """Both scopes as they are now."""
        local, shared = await asyncio.gather(
            self._topic_policies.get(topic, is_global=False),
            self._topic_policies.get(topic, is_global=True),
        )
        self._known.pop(topic, None)
        if local is not None or shared is not None:
            if len(self._known) >= _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[topic] = local, shared
        return local, shared

    async def load_or_recall(
        self, topic: TopicName, listener: TopicPolicyListener | None = None
    ) -> tuple[Pair, bool]:
        """The topic's policies and True, or what was known last and False; never waits long.

        A listener is registered first, so that nothing falls between.
        """
        if not takes_policies(topic):
            return (None, None), True
        wait_s = min(_LOAD_S_MAX, self._config.topicPoliciesCacheInitTimeoutSeconds)
        try:
            async with asyncio.timeout(wait_s):
                if listener is not None:
                    await self._topic_policies.register_listener_async(topic, listener)
                return await self.load(topic), True
        except TimeoutError:
            reason = f"no answer within {wait_s} s"
        except BrokerError as error:
            reason = error.sentence
        # A backend may be somebody else's: whatever it does, topics load.
        except Exception as error:
            reason = repr(error)
        known = self._known.get(topic)
        _log.error(
            "topic loads without its own policies",
            topic=str(topic),
            instead="last known" if known is not None else "the namespace's",
            reason=reason,
        )
        return known or (None, None), False

    def forget(self, topic: TopicName) -> None:
        self._known.pop(topic, None)

    def forget_namespace(self, namespace: NamespaceName) -> None:
        for topic in [topic for topic in self._known if topic.namespace == namespace]:
            del self._known[topic]
