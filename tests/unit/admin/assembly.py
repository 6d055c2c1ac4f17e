"""The REST interface over a real broker that keeps everything in memory, called without sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from magnetar.admin.application import Application
from magnetar.admin.table import make_application
from magnetar.broker.administration.web import Administration
from magnetar.broker.ownership import Owner, SoleOwnership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.seed import seed_cluster
from magnetar.broker.service import Service
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import parse_topic
from magnetar.model.position import Position, Term
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import encode_entry

V2 = "/admin/v2"
OWNER = Owner(
    "broker.test:8080", "pulsar://broker.test:6650", "http://broker.test:8080", Term(1), True
)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["reason"])


@dataclass
class Admin:
    """A caller of the interface, with a hand on the broker behind it."""

    application: Application
    service: Service
    api: Administration
    settings: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    scheme: str = "http"

    async def call(
        self,
        method: str,
        path: str,
        body: Any = ...,
        *,
        raw: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Reply:
        data = raw if raw is not None else b"" if body is ... else json.dumps(body).encode()
        raw_path, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "scheme": self.scheme,
            "raw_path": raw_path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "path": raw_path,
            "headers": [(b"content-type", content_type.encode()), (b"accept", accept.encode())],
        }
        headers = dict(self.headers)
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        scope["headers"] += [(name.encode(), value.encode()) for name, value in headers.items()]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        told = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
        body_sent = b"".join(message["body"] for message in sent[1:])
        return Reply(sent[0]["status"], told, body_sent)

    async def get(self, path: str) -> Reply:
        return await self.call("GET", path)

    async def put(self, path: str, body: Any = ...) -> Reply:
        return await self.call("PUT", path, body)

    async def post(self, path: str, body: Any = ...) -> Reply:
        return await self.call("POST", path, body)

    async def delete(self, path: str) -> Reply:
        return await self.call("DELETE", path)

    async def publish(self, topic: str, payload: bytes, **metadata: Any) -> Position:
        """Append one entry, as a producer's message."""
        live = await self.service.catalog.load_topic(parse_topic(topic))
        assert isinstance(live, PersistentTopic)
        told = {"producer_name": "p", "sequence_id": 0, "publish_time": 1_700_000_000_000}
        entry = encode_entry(MessageMetadata(**{**told, **metadata}), payload)
        return await live.log.append_entry(entry)


@asynccontextmanager
async def admin_of_new_broker(
    *,
    metadata: MetadataStore | None = None,
    disk: LedgerStore | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[Admin]:
    """The broker closes the stores that it made; those handed in may serve the next one."""
    clock = clock or SystemClock()
    config = Configuration(settings, standalone=True)
    async with AsyncExitStack() as stack:
        store = metadata if metadata is not None else MemoryStore(MemoryTree(clock))
        if metadata is None:
            stack.push_async_callback(store.close)
        ledgers = disk if disk is not None else MemoryLedgerStore()
        if disk is None:
            stack.push_async_callback(ledgers.close)
        configuration = metadata if metadata is not None else MemoryStore(MemoryTree(clock))
        if metadata is None:
            stack.push_async_callback(configuration.close)
        resources = Resources(store, configuration, clock=clock)
        await seed_cluster(resources, "standalone", OWNER)
        policies = PolicyService(resources, config, clock=clock)
        stack.push_async_callback(policies.close)
        service = Service(
            config,
            clock,
            store=store,
            ledgers=ledgers,
            resources=resources,
            policies=policies,
            schemas=SchemaRegistry(store, ledgers, clock),
            ownership=SoleOwnership(OWNER),
            owner=OWNER,
            cache=EntryCache(1 << 20),
        )
        stack.push_async_callback(service.close)
        api = Administration(service)
        await service.stored_configuration.open()
        yield Admin(make_application(api), service, api)


def run(body: Callable[[Admin], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with admin_of_new_broker(**settings) as admin:
            await body(admin)

    asyncio.run(main())
