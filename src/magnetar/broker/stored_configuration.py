"""Configuration values that were changed at run time: kept for all brokers of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from magnetar.errors import PreconditionFailed, RecordUnreadable, VersionConflict
from magnetar.metadata.store import ABSENT, Cancel, MetadataStore
from magnetar.model.document import decode_json
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

PATH: Final = "/admin/configuration"

_log = Logger(__name__)


class StoredConfiguration:
    def __init__(
        self,
        config: Configuration,
        store: MetadataStore,
        tasks: TaskScope,
        *,
        clock: Clock,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """`catch_up` waits until a change has had its effect."""
        self._config = config
        self._store = store
        self._catch_up = catch_up
        self._applied: set[str] = set()
        """Keys whose values came from the store."""
        self._reconciler = Reconciler(tasks, "configuration", self._follow, clock=clock)
        self._cancels: tuple[Cancel, ...] = ()

    async def open(self) -> None:
        """Apply what is stored, now and whenever a broker that shares the store changes it."""
        self._cancels = (
            self._store.watch(PATH, lambda _: self._reconciler.request()),
            self._store.watch_session(lambda _: self._reconciler.request()),
        )
        await self._apply_stored()

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._reconciler.close()

    async def values(self) -> Mapping[str, str]:
        return (await self._load())[0]

    async def set(self, key: str, value: str) -> None:
        """A value that does not fit is kept, but not applied."""
        await self._put(key, value)
        self._apply(key, value)
        await self._catch_up()

    async def remove(self, key: str) -> None:
        await self._put(key, None)
        self._config.reset_dynamic(key)
        await self._catch_up()

    async def _follow(self) -> None:
        try:
            await self._apply_stored()
        except RecordUnreadable as error:
            _log.error("configuration stays as it was", error=error)

    async def _apply_stored(self) -> None:
        values = await self.values()
        for key in self._applied - values.keys():
            self._applied.discard(key)
            self._config.reset_dynamic(key)
        for key, value in values.items():
            self._apply(key, value)

    def _apply(self, key: str, value: str) -> None:
        try:
            self._config.update_dynamic(key, value)
            self._applied.add(key)
        except PreconditionFailed as refusal:
            _log.warning("configuration value not applied", key=key, reason=refusal.sentence)

    async def _load(self) -> tuple[dict[str, str], int]:
        record = await self._store.get(PATH)
        if record is None or not record.value:
            return {}, ABSENT if record is None else record.stat.version
        try:
            values = decode_json(record.value, dict[str, str])
        except msgspec.DecodeError as error:
            raise RecordUnreadable(f"{PATH}: {error}") from None
        return values, record.stat.version

    async def _put(self, key: str, value: str | None) -> None:
        while True:
            values, version = await self._load()
            values.pop(key, None)
            if value is not None:
                values[key] = value
            try:
                encoded = msgspec.json.encode(values)
                await self._store.put(PATH, encoded, expect=version)
            except VersionConflict:
                continue
            return
