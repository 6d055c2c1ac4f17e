"""Resolution of a name for clients: the layout of its topic, and the brokers that serve it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.controller_directory import ControllerDirectory
from magnetar.broker.scalable.key_hash import KeyHashes
from magnetar.broker.scalable.leadership import leader_identity
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.regular import RegularTopics
from magnetar.errors import BrokerError, NoOwner, NotAllowed, TopicNotFound
from magnetar.metadata.store import Cancel, MetadataStore
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.scalable import BrokerAddress, LayoutView, MigrateIntent, controller_path
from magnetar.model.segment import scalable_name
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class LayoutResolver:
    def __init__(
        self,
        records: ScalableRecords,
        controllers: ControllerDirectory,
        regular: RegularTopics,
        *,
        keys: KeyHashes,
        partitioned: PartitionedTopics,
        store: MetadataStore,
        owner: Owner,
        ownership: Ownership,
        catalog: TopicCatalog,
        create: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        """`create` makes a scalable topic, or raises TopicNotFound when it may not."""
        self._records = records
        self._controllers = controllers
        self._regular = regular
        self._keys = keys
        self._partitioned = partitioned
        self._store = store
        self._owner = owner
        self._ownership = ownership
        self._catalog = catalog
        self._create = create

    async def resolve(
        self, name: TopicName, *, create_if_missing: bool
    ) -> tuple[TopicName, LayoutView]:
        """The scalable topic of a name and its layout, whatever kind of topic it is."""
        if name.domain is TopicDomain.NON_PERSISTENT:
            raise NotAllowed(f"{name} keeps nothing and has no layout")
        if name.is_partition:
            raise TopicNotFound(f"{name} is an individual partition; look up {name.base}")
        topic = scalable_name(name)
        record = await self._records.get(topic)
        if record is None and name.domain is TopicDomain.TOPIC and create_if_missing:
            await self._create(topic)
            record = await self._records.get(topic)
        if record is None and name.domain is TopicDomain.PERSISTENT:
            return topic, await self._view_regular(name)
        if record is None or record.is_deleting:
            raise TopicNotFound(f"Scalable topic not found: {topic}")
        if isinstance(record.intent, MigrateIntent):  # writers wait for it, sealing can wait
            self._controllers.wake(topic)
            view = await self.view(topic)  # the address of its controller to be is known already
            return topic, replace(view, controller=view.controller or self._owner.address)
        try:
            await self._controllers.get(topic)
        except TopicNotFound:
            raise
        except NoOwner:
            self._controllers.wake(topic)  # where its name is owned
        except BrokerError as failure:  # the layout can be served without
            _log.warning("topic has no controller", topic=topic.full, reason=failure.sentence)
        return topic, await self.view(topic)

    async def _view_regular(self, name: TopicName) -> LayoutView:
        layout = await self._regular.load_layout(name)
        found = await self._keys.find(name)
        hashing = "" if found is None else found.value
        return LayoutView(layout, controller=await self._host_address(name), key_hash=hashing)

    async def view(self, topic: TopicName) -> LayoutView:
        """The layout with who serves the active segments and who controls the topic."""
        name = scalable_name(topic)
        record = await self._records.require(name)
        brokers = {}
        for segment in record.layout.active:
            try:
                owner = await self._ownership.owner_of(segment.name_in(name))
            except NoOwner:
                continue  # clients look it up themselves
            brokers[segment.id] = owner.address
        return LayoutView(record.layout, brokers, await self._controller_address(name))

    async def _controller_address(self, topic: TopicName) -> BrokerAddress | None:
        controller = self._controllers.find(topic)
        if controller is not None and controller.leadership.is_leading:
            return self._owner.address
        leader = await self._records.load_controller(topic)
        if leader is not None and leader == leader_identity(self._owner.broker_id):
            return self._owner.address
        try:
            owner = await self._ownership.owner_of(topic)
            return None if owner.is_self else owner.address
        except NoOwner:
            return None

    async def _host_address(self, name: TopicName) -> BrokerAddress | None:
        """Where the groups of a regular topic are: with the broker that would control it if it
        were scalable. A broker that runs alone need not say so.
        """
        if not self._ownership.is_shared:
            return None
        try:
            return (await self._ownership.owner_of(scalable_name(name))).address
        except NoOwner:
            return None

    def watch(self, name: TopicName, listener: Callable[[], None]) -> Cancel:
        """Call the listener after each change of what `resolve` says of the name, until the broker
        closes.
        """

        def on_change() -> None:
            if not self._catalog.closing:
                listener()

        cancels = [
            self._records.watch(name, on_change),
            self._store.watch(controller_path(name), lambda _: on_change()),
        ]
        if name.domain is TopicDomain.PERSISTENT:
            cancels.append(self._partitioned.watch(name, on_change))

        def cancel() -> None:
            for each in cancels:
                each()

        return cancel
