"""Questions about topics that any broker answers: where, how many partitions, which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from magnetar.client.address import BrokerAddress, parse_addresses
from magnetar.client.connection import Connection, Type
from magnetar.client.error import ConnectError, PulsarError, UnavailableError, decode_refusal
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.retry import in_time, insist, is_passing
from magnetar.model.name import NamespaceName, TopicName
from magnetar.runtime.clock import Clock
from magnetar.wire.command import (
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
)

_REDIRECTS_MAX: Final = 20

T = TypeVar("T")


class Location(NamedTuple):
    """Where to connect; behind a proxy `proxy_to` names the broker itself, as host:port."""

    address: BrokerAddress
    proxy_to: str | None = None


class Lookup:
    def __init__(
        self,
        pool: ConnectionPool,
        *,
        clock: Clock,
        policy: ConnectionPolicy,
        timeout: float,
        listener: str = "",
    ) -> None:
        self._listener = listener
        """Which of a broker's addresses to ask for."""
        self._pool = pool
        self._clock = clock
        self._policy = policy
        self._timeout = timeout

    async def locate(self, topic: TopicName) -> Location:
        """Follow redirects to the broker that serves the topic; one attempt.

        A broker that cannot say it now may be cut off from the others: the next is asked next.
        """
        connection = await self._pool.get_service()
        try:
            return await self._follow(connection, topic)
        except PulsarError as error:
            if is_passing(error):
                self._pool.pass_over(connection.address)
            raise

    async def _follow(self, connection: Connection, topic: TopicName) -> Location:
        authoritative = False
        for _ in range(_REDIRECTS_MAX):
            answer: CommandLookupTopicResponse = await connection.request(
                CommandLookupTopic(
                    topic=topic.full,
                    authoritative=authoritative,
                    advertised_listener_name=self._listener or None,
                ),
                Type.LOOKUP_RESPONSE,
                timeout=self._timeout,
            )
            match answer.response:
                case CommandLookupTopicResponse.Connect:
                    return _location(connection, answer)
                case CommandLookupTopicResponse.Redirect:
                    authoritative = answer.authoritative
                    connection = await self._pool.get(_named(connection, answer))
                case _:
                    raise decode_refusal(answer.error, answer.message)
        raise UnavailableError(f"{topic} was redirected {_REDIRECTS_MAX} times")

    async def connect(self, topic: TopicName, turn: int = 0) -> Connection:
        """To the broker that serves the topic; `turn` chooses among several connections."""

        async def find() -> Connection:
            location = await self.locate(topic)
            return await self._pool.get(location.address, location.proxy_to, turn)

        what = f"Finding and reaching the broker of {topic}"
        return await in_time(find(), clock=self._clock, timeout=self._timeout, what=what)

    async def connect_to(self, service_url: str, turn: int = 0) -> Connection:
        """Connect to a broker that another broker named."""
        reached = self._pool.get(parse_addresses(service_url)[0], turn=turn)
        return await in_time(
            reached, clock=self._clock, timeout=self._timeout, what=f"Connecting to {service_url}"
        )

    async def count_partitions(self, topic: TopicName, *, create: bool = True) -> int:
        """0 for a topic without partitions; `create` lets the broker make a missing topic."""

        async def ask() -> int:
            connection = await self._connect_any()
            answer: CommandPartitionedTopicMetadataResponse = await connection.request(
                CommandPartitionedTopicMetadata(
                    topic=topic.full, metadata_auto_creation_enabled=create
                ),
                Type.PARTITIONED_METADATA_RESPONSE,
                timeout=self._timeout,
            )
            if answer.response == CommandPartitionedTopicMetadataResponse.Failed:
                raise decode_refusal(answer.error, answer.message or f"Topic {topic} not found")
            return answer.partitions

        return await self._insist(ask)

    async def has_scalable_topics(self) -> bool:
        """Whether brokers know of layouts."""

        async def ask() -> bool:
            return (await self._connect_any()).features.supports_scalable_topics

        return await self._insist(ask)

    async def list_topics(self, namespace: NamespaceName, *, mode: str = "PERSISTENT") -> list[str]:
        """Full names, each partition on its own."""

        async def ask() -> list[str]:
            connection = await self._connect_any()
            answer = await connection.request(
                CommandGetTopicsOfNamespace(namespace=str(namespace), mode=mode),
                Type.GET_TOPICS_OF_NAMESPACE_RESPONSE,
                timeout=self._timeout,
            )
            return list(answer.topics)

        return await self._insist(ask)

    async def _connect_any(self) -> Connection:
        reached = self._pool.get_service()
        return await in_time(reached, clock=self._clock, timeout=self._timeout, what="Connecting")

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await insist(ask, clock=self._clock, policy=self._policy, timeout=self._timeout)


def _named(connection: Connection, answer: CommandLookupTopicResponse) -> BrokerAddress:
    secure = connection.address.secure
    url = answer.brokerServiceUrlTls if secure else answer.brokerServiceUrl
    if not url:
        kind = "with" if secure else "without"
        raise ConnectError(f"The broker that serves the topic has no address {kind} TLS")
    return parse_addresses(url)[0]


def _location(connection: Connection, answer: CommandLookupTopicResponse) -> Location:
    named = _named(connection, answer)
    if answer.proxy_through_service_url:
        return Location(connection.address, named.endpoint)
    return Location(named)
