from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from magnetar.app.standalone import serving


def test_the_entry_cache_follows_its_key_at_run_time(tmp_path: Path) -> None:
    async def run() -> list[int]:
        overrides = ["managedLedgerCacheSizeMB=3"]
        async with serving(data=tmp_path, port=0, web_port=0, overrides=overrides) as server:
            service = server.service
            sizes = [service.catalog.logs.cache.bytes_max]
            for text in ("5", "0"):
                service.config.update_dynamic("managedLedgerCacheSizeMB", text)
                sizes.append(service.catalog.logs.cache.bytes_max)
            service.config.reset_dynamic("managedLedgerCacheSizeMB")
            return [*sizes, service.catalog.logs.cache.bytes_max]

    assert asyncio.run(run()) == [size << 20 for size in (3, 5, 256, 3)]


def test_a_setting_without_effect_is_logged_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        overrides = ["zookeeperServers=zk:2181", "maxTenants=3"]
        async with serving(data=tmp_path, port=0, web_port=0, overrides=overrides):
            pass

    asyncio.run(run())
    logged = [
        vars(record)["fields"]
        for record in caplog.records
        if record.getMessage() == "setting has no effect in this broker"
    ]
    assert [fields["key"] for fields in logged] == ["zookeeperServers"]
    assert logged[0]["reason"].startswith("Set metadataStoreUrl=zk://")
