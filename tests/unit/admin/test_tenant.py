from __future__ import annotations

import pytest

from tests.unit.admin.assembly import V2, Admin, run

TENANTS = f"{V2}/tenants"
INFO = {"adminRoles": ["r"], "allowedClusters": ["standalone"]}


def test_a_tenant_is_made_read_changed_and_removed() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TENANTS}/t1", INFO)).status == 204
        assert (await admin.get(TENANTS)).json == ["public", "pulsar", "t1"]
        assert (await admin.get(f"{TENANTS}/t1/")).json == INFO
        changed = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert (await admin.post(f"{TENANTS}/t1", changed)).status == 204
        assert (await admin.get(f"{TENANTS}/t1")).json == changed
        assert (await admin.delete(f"{TENANTS}/t1")).status == 204
        assert (await admin.get(f"{TENANTS}/t1")).status == 404

    run(body)


@pytest.mark.parametrize(
    ("name", "info", "status", "reason"),
    [
        ("t1", ..., 412, "TenantInfo is null"),
        ("t1", None, 412, "TenantInfo is null"),
        ("t1", {"allowedClusters": ["nope"]}, 412, "Clusters do not exist: nope"),
        ("t1", {"allowedClusters": []}, 412, "Clusters cannot be empty or blank"),
        ("public", INFO, 409, "Tenant already exist"),
        ("a%40b", INFO, 412, "Tenant name is not valid"),
    ],
)
def test_a_tenant_is_refused_with_its_reason(
    name: str, info: object, status: int, reason: str
) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.put(f"{TENANTS}/{name}", info)
        assert (reply.status, reply.reason) == (status, reason)

    run(body)


def test_a_tenant_with_namespaces_stays_unless_forced_and_allowed() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TENANTS}/t1", INFO)
        await admin.put(f"{V2}/namespaces/t1/n1")
        kept = await admin.delete(f"{TENANTS}/t1")
        assert (kept.status, kept.reason) == (409, "The tenant still has active namespaces")
        forced = await admin.delete(f"{TENANTS}/t1?force=true")
        assert forced.status == 405

    run(body)


def test_a_forced_removal_takes_namespaces_and_topics_along() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TENANTS}/t1", INFO)
        await admin.put(f"{V2}/namespaces/t1/n1")
        assert (await admin.put(f"{V2}/persistent/t1/n1/a")).status == 204
        assert (await admin.put(f"{V2}/persistent/t1/n1/p/partitions", 2)).status == 204
        assert (await admin.delete(f"{TENANTS}/t1?force=true")).status == 204
        assert (await admin.get(f"{TENANTS}/t1")).status == 404
        assert (await admin.get(f"{V2}/namespaces/t1/n1")).status == 404

    run(body, forceDeleteTenantAllowed=True)


def test_a_cluster_in_use_cannot_be_taken_from_its_tenant() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/clusters/c2", {})
        await admin.put(f"{TENANTS}/t1", INFO)
        await admin.put(f"{V2}/namespaces/t1/n1")
        reply = await admin.post(f"{TENANTS}/t1", {"allowedClusters": ["c2"]})
        assert reply.status == 412 and "t1/n1" in reply.reason

    run(body)
