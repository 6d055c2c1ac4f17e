"""Coordinators of transactions over REST."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.admin.assembly import admin_of_new_broker

COORDINATORS = "/admin/v3/transactions/transactionCoordinator/replicas"


@pytest.mark.parametrize("replicas", [1025, 2**31 - 1, 2**40])
def test_more_coordinators_than_clients_can_connect_to_are_refused(replicas: int) -> None:
    """Their number never falls, so one that no record holds would end all transactions."""

    async def body() -> None:
        async with admin_of_new_broker(transactionCoordinatorEnabled=True) as admin:
            refused = await admin.call("POST", COORDINATORS, raw=b"%d" % replicas)
            assert refused.status == 406
            assert "at most 1024" in refused.body.decode()
            assert (await admin.call("POST", COORDINATORS, raw=b"17")).status == 204
            found = await admin.get("/admin/v3/transactions/coordinatorStats")
            assert len(found.json) == 17

    asyncio.run(body())
