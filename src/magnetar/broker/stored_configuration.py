"""Configuration values that were changed at run time: kept for all brokers of a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from magnetar.errors import PreconditionFailed, RecordUnreadable, VersionConflict
from magnetar.metadata.store import ABSENT
from magnetar.model.document import decode_json
from magnetar.runtime.log import Log
from magnetar.runtime.reconciler import Reconciler

if TYPE_CHECKING:
    from magnetar.broker.service import Service

PATH: Final = "/admin/configuration"

_log = Log(__name__)


class StoredConfiguration:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._applied: set[str] = set()
        """Keys whose values came from the store."""
        self._reconciler = Reconciler(
            service.tasks, "configuration", self._follow, clock=service.clock
        )

    async def open(self) -> None:
        """Apply what is stored, now and whenever a broker that shares the store changes it."""
        store = self._service.store
        store.watch(PATH, lambda _: self._on_stored())
        store.watch_session(lambda _: self._on_stored())
        await self._apply_stored()

    async def values(self) -> Mapping[str, str]:
        return (await self._load())[0]

    async def set(self, key: str, value: str) -> None:
        """A value that does not fit is kept, but not applied."""
        await self._store(key, value)
        self._apply(key, value)
        await self._service.revocation.settle()

    async def remove(self, key: str) -> None:
        await self._store(key, None)
        self._service.config.reset_dynamic(key)
        await self._service.revocation.settle()

    def _on_stored(self) -> None:
        if not self._service.closing:
            self._reconciler.request()

    async def _follow(self) -> None:
        try:
            await self._apply_stored()
        except RecordUnreadable as error:
            _log.error("configuration stays as it was", error=error)

    async def _apply_stored(self) -> None:
        values = await self.values()
        for key in self._applied - values.keys():
            self._applied.discard(key)
            self._service.config.reset_dynamic(key)
        for key, value in values.items():
            self._apply(key, value)

    def _apply(self, key: str, value: str) -> None:
        try:
            self._service.config.update_dynamic(key, value)
            self._applied.add(key)
        except PreconditionFailed as refusal:
            _log.warning("configuration value not applied", key=key, reason=refusal.sentence)

    async def _load(self) -> tuple[dict[str, str], int]:
        record = await self._service.store.get(PATH)
        if record is None or not record.value:
            return {}, ABSENT if record is None else record.stat.version
        try:
            values = decode_json(record.value, dict[str, str])
        except msgspec.DecodeError as error:
            raise RecordUnreadable(f"{PATH}: {error}") from None
        return values, record.stat.version

    async def _store(self, key: str, value: str | None) -> None:
        while True:
            values, version = await self._load()
            values.pop(key, None)
            if value is not None:
                values[key] = value
            try:
                encoded = msgspec.json.encode(values)
                await self._service.store.put(PATH, encoded, expect=version)
            except VersionConflict:
                continue
            return
