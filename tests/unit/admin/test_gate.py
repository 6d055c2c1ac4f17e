"""What a caller without permission is told."""

from __future__ import annotations

import base64

import pytest

from tests.unit.admin.assembly import V2, Admin, run

GUARDED = {
    "authenticationEnabled": True,
    "authenticationProviders": "token",
    "tokenSecretKey": "data:;base64," + base64.b64encode(bytes(32)).decode(),
    "anonymousUserRole": "guest",
    "authorizationEnabled": True,
}


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/namespaces/absent/default/retention", 404, "Tenant does not exist"),
        ("/persistent/absent/default/x/stats", 404, "Tenant does not exist"),
        ("/namespaces/public/default/retention", 403, "guest"),
        ("/persistent/public/default/x/stats", 401, "guest"),
        ("/clusters/absent/peers", 401, "super-user"),
    ],
)
def test_a_tenant_that_is_not_there_is_told_before_what_is_missing(
    path: str, status: int, reason: str
) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get(V2 + path)
        assert reply.status == status, reply.body
        assert reason in reply.reason

    run(body, **GUARDED)
