"""Coordinators of transactions over REST."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.admin.assembly import admin_of_new_broker

TENANT = {"allowedClusters": ["standalone"]}
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


def test_a_segment_is_asked_like_a_topic() -> None:
    async def body() -> None:
        async with admin_of_new_broker(transactionCoordinatorEnabled=True) as admin:
            assert (await admin.put("/admin/v2/tenants/t", TENANT)).status == 204
            assert (await admin.put("/admin/v2/namespaces/t/n", {})).status == 204
            assert (await admin.put("/admin/v2/scalable/t/n/x?numInitialSegments=1")).status == 204
            root, segment = "/admin/v3/transactions", "segment/t/n/x%2F0000-ffff-0"
            found = await admin.get(f"{root}/transactionBufferStats/{segment}")
            assert (found.status, found.json["ongoingTxnSize"]) == (200, 0)
            unknown = await admin.get(f"{root}/transactionInBufferStats/{segment}/0/7")
            assert unknown.status == 404 and "has written nothing to segment://" in unknown.reason
            pending = await admin.get(f"{root}/pendingAckStats/{segment}/s")
            assert pending.status == 404 and "Subscription s not found" in pending.reason
            gone = await admin.get(f"{root}/transactionBufferStats/segment/t/n/x%2F0000-7fff-9")
            assert gone.status == 404

    asyncio.run(body())
