"""The other brokers of a cluster, or the other workers of a machine, all asked the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Concatenate, Final, ParamSpec, TypeVar

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.scalable.segment import together
from magnetar.errors import BrokerError
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.rules.system import SYSTEM_TENANT
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_ANSWER_S_MAX: Final = 5.0

_log = Logger(__name__)


class OtherBrokers:
    """Asks each of them by the name of a topic that only it may serve."""

    def __init__(self, calls: BrokerCalls, ownership: BundleOwnership, *, clock: Clock) -> None:
        self._calls = calls
        self._ownership = ownership
        self._clock = clock

    async def ask(
        self,
        method: Callable[Concatenate[T, P], Awaitable[R]],
        here: T,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Mapping[str, R | None]:
        """What each answers to a method of a port, by broker id; None where one does not answer.
        `here` is what answers for this broker, which is not asked.
        """

        async def ask(broker_id: str) -> R | None:
            home = NamespaceName(SYSTEM_TENANT, broker_id)
            name = TopicName(TopicDomain.PERSISTENT, home, "healthcheck")
            try:
                async with self._clock.timeout(_ANSWER_S_MAX):
                    return await self._calls.ask(name, name, method, here, *args, **kwargs)
            except (BrokerError, TimeoutError) as failure:
                reason = f"{method.__qualname__}: {failure}"
                _log.warning("broker does not answer", broker=broker_id, reason=reason)
                return None

        brokers = sorted(await self._ownership.directory.reports())
        others = [each for each in brokers if each != self._ownership.me.broker_id]
        return dict(zip(others, await together(map(ask, others)), strict=True))
