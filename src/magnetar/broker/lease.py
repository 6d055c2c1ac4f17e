"""Namespaces that several brokers share out among themselves over one metadata store.

Ledgers lie in the data directory of one broker, so a namespace has a home: the directory that holds
its topics. A lasting record names it. The first broker that is asked for a namespace writes that
record. It is never written again, and so no two brokers own one topic, whatever becomes of their
sessions.

Where the home is served at present tells a lease: an ephemeral record in the place and the shape of
Pulsar's bundle owners. A broker whose session ended takes its leases again under a higher term, and
its topics are opened anew, which fences what the earlier term left open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec

from magnetar.broker.ownership import Location, Owner, require_self
from magnetar.errors import NoOwner, RecordNotFound, RecordUnreadable, VersionConflict
from magnetar.metadata.store import ABSENT, Change, ChangeKind, MetadataStore, SessionEvent
from magnetar.model.document import decode_json
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.position import Term
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.bundle import FULL_RANGE, Bundle, full_bundle
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

DIRECTORIES: Final = "/magnetar/directories"
HOMES: Final = "/magnetar/homes"
LEASES: Final = "/namespace"
_LOOKS: Final = 10
_LOOK_S: Final = 0.1

_log = Logger(__name__)


class LeaseRecord(msgspec.Struct, kw_only=True, frozen=True):
    """Pulsar's fields, then ours."""

    brokerId: str
    nativeUrl: str
    httpUrl: str
    nativeUrlTls: str = ""
    httpUrlTls: str = ""
    disabled: bool = False
    term: int = 0
    directory: str = ""
    advertisedListeners: dict[str, dict[str, str]] = {}


class DirectoryRecord(msgspec.Struct, kw_only=True):
    """Where the data is that a directory's name stands for, and the broker last seen at it."""

    path: str
    brokerId: str = ""


def describe_listeners(owner: Owner) -> dict[str, dict[str, str]]:
    """The addresses of a broker by the name a client may ask for, as Pulsar spells them."""
    return {
        name: {
            "brokerServiceUrl": address.url,
            "brokerServiceUrlTls": address.url_tls,
        }
        for name, address in owner.listeners.items()
    }


def home_path(namespace: NamespaceName) -> str:
    return f"{HOMES}/{namespace}"


def directory_path(identity: str) -> str:
    return f"{DIRECTORIES}/{identity}"


def lease_path(namespace: NamespaceName) -> str:
    """The whole namespace is one bundle here: its topics are in one directory."""
    return f"{LEASES}/{namespace}/{FULL_RANGE}"


class NamespaceOwnership:
    """`me` says how this broker is reached and under which term it began. `directory` identifies
    its data; the process holds a lock on it, so no other process can be at it.

    `next_term` counts the term up. `is_known` tells whether a namespace exists: one that does not
    has no owner.
    """

    is_shared = True

    def __init__(
        self,
        store: MetadataStore,
        me: Owner,
        directory: str,
        *,
        clock: Clock,
        next_term: Callable[[], Awaitable[Term]],
        is_known: Callable[[NamespaceName], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._me = me
        self._directory = directory.encode()
        self._clock = clock
        self._next_term = next_term
        self._is_known = is_known
        self._listeners: list[Callable[[Bundle], None]] = []
        self._leases: dict[NamespaceName, Owner] = {}
        self._by_path: dict[str, NamespaceName] = {}
        self._acquiring = asyncio.Lock()
        self._scope = TaskScope("leases")
        self._reconciler = Reconciler(self._scope, "revalidate", self._revalidate, clock=clock)
        self._cancels = (
            store.watch(LEASES, self._on_change),
            store.watch_session(self._on_session),
        )

    async def owner_of(self, topic: TopicName) -> Owner:
        namespace = topic.namespace
        held = self._leases.get(namespace)
        if held is not None:
            return held
        home = await self._load_home(namespace)
        if home is None:
            return self._me
        if home != self._directory:
            return await self._load_remote(namespace, home.decode())
        async with self._acquiring:
            held = self._leases.get(namespace)
            return held if held is not None else await self._acquire(namespace)

    async def require(self, topic: TopicName) -> Owner:
        return require_self(await self.owner_of(topic), topic)

    async def locate(self, topic: TopicName, *, is_authoritative: bool) -> Location:
        owner = await self.owner_of(topic)
        return Location(owner, is_redirect=not owner.is_self)

    def listen(self, listener: Callable[[Bundle], None]) -> None:
        """Call the listener with each namespace, as one bundle, whose topics must open anew."""
        self._listeners.append(listener)

    def _notify(self, namespace: NamespaceName) -> None:
        for listener in self._listeners:
            listener(full_bundle(namespace))

    async def resume(self) -> None:
        """Take the leases of all namespaces whose home is here, so that every broker finds them."""
        for tenant in await self._store.children(HOMES):
            async for name, record in self._store.scan_children(f"{HOMES}/{tenant}"):
                if record.value == self._directory:
                    async with self._acquiring:
                        await self._acquire(NamespaceName(tenant, name))

    async def close(self) -> None:
        """The leases end with the session."""
        for cancel in self._cancels:
            cancel()
        self._reconciler.close()
        await self._scope.close()

    async def _load_home(self, namespace: NamespaceName) -> bytes | None:
        """The directory that holds the namespace: this one, from now on, when there was none."""
        path = home_path(namespace)
        record = await self._store.get(path)
        if record is not None:
            return record.value
        if not await self._is_known(namespace):
            return None
        try:
            await self._store.put(path, self._directory, expect=ABSENT)
        except VersionConflict:
            return await self._load_home(namespace)
        return self._directory

    async def _load_remote(self, namespace: NamespaceName, home: str) -> Owner:
        path = lease_path(namespace)
        record = await self._store.get(path)
        for _ in range(_LOOKS):
            if record is not None:
                break
            await self._clock.sleep(_LOOK_S)  # the home may be taking its lease at this moment
            record = await self._store.get(path)
        if record is None:
            raise NoOwner(await self._describe_absence(namespace, home))
        lease = _decode(path, record.value)
        return Owner(
            broker_id=lease.brokerId,
            service_url=lease.nativeUrl,
            web_url=lease.httpUrl,
            term=Term(lease.term),
            is_self=False,
            listeners={
                name: BrokerAddress(
                    urls.get("brokerServiceUrl", ""), urls.get("brokerServiceUrlTls", "")
                )
                for name, urls in lease.advertisedListeners.items()
            },
            service_url_tls=lease.nativeUrlTls,
            web_url_tls=lease.httpUrlTls,
        )

    async def _describe_absence(self, namespace: NamespaceName, home: str) -> str:
        seen = await self._store.get(directory_path(home))
        try:
            known = decode_json(seen.value if seen else b"", DirectoryRecord)
            who = f"Broker {known.brokerId}"
        except msgspec.DecodeError:
            who = f"The broker of the data directory {home}"
        return (
            f"{who} holds the topics of {namespace} and is not there;"
            " no other broker has them, try again when it is back"
        )

    async def _acquire(self, namespace: NamespaceName) -> Owner:
        path, me = lease_path(namespace), self._me
        record = await self._store.get(path)
        try:
            if record is not None:
                found = _decode(path, record.value)
                if found.directory.encode() != self._directory:
                    raise NoOwner(f"The lease of {namespace} does not name its home")
                if found.term > me.term:
                    raise NoOwner(f"A copy of this directory was started later and has {namespace}")
                # Of a session of ours that ended, or will.
                await self._store.delete(path, expect=record.stat.version)
            await self._store.put(path, self._encode(me), expect=ABSENT, ephemeral=True)
        except (RecordNotFound, VersionConflict):
            raise NoOwner(f"The lease of {namespace} is changing hands") from None
        self._leases[namespace] = me
        self._by_path[path] = namespace
        return me

    async def _revalidate(self) -> None:
        lost = []
        for namespace, held in tuple(self._leases.items()):
            path = lease_path(namespace)
            record = await self._store.get(path)
            if record is not None and _decode(path, record.value).term > held.term:
                # A copy of the directory, started later: the higher term has it.
                del self._leases[namespace]
                _log.error("lease lost to a copy of this directory", namespace=str(namespace))
                self._notify(namespace)
            elif record is None or not record.stat.created_by_self:
                lost.append(namespace)
        if not lost:
            return
        self._me = replace(self._me, term=await self._next_term())
        _log.warning("leases were lost", namespaces=len(lost), term=self._me.term)
        for namespace in lost:
            async with self._acquiring:
                try:
                    await self._acquire(namespace)
                except NoOwner as refusal:
                    del self._leases[namespace]
                    _log.error("lease not renewed", reason=refusal.sentence)
            self._notify(namespace)

    def _encode(self, me: Owner) -> bytes:
        return msgspec.json.encode(
            LeaseRecord(
                brokerId=me.broker_id,
                nativeUrl=me.service_url,
                httpUrl=me.web_url,
                term=me.term,
                directory=self._directory.decode(),
                nativeUrlTls=me.service_url_tls,
                httpUrlTls=me.web_url_tls,
                advertisedListeners=describe_listeners(me),
            )
        )

    def _on_change(self, change: Change) -> None:
        if change.kind is ChangeKind.DELETED and self._by_path.get(change.path) in self._leases:
            self._reconciler.request()

    def _on_session(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self._reconciler.request()


def _decode(path: str, value: bytes) -> LeaseRecord:
    try:
        return decode_json(value, LeaseRecord)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"{path}: {error}") from None
