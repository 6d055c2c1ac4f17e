"""Asks every path as a caller who may not, and of a broker that owns nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from magnetar.broker.ownership import Owner
from magnetar.model.name import TopicName
from magnetar.model.position import Term
from tests.unit.admin.assembly import V2, Reply, admin_of_new_broker
from tests.unit.golden.request import PUBLISH
from tests.unit.golden.rest_script import rest_requests

# Signed with the key below: {"sub": "root"} and {"sub": "stranger"}.
_HEAD: Final = "eyJhbGciOiJIUzI1NiJ9"
_ROOT: Final = f"{_HEAD}.eyJzdWIiOiJyb290In0.ANq2QlJQj_Md53mw_ZBc_Xg8xhsiszthoY8U1CPJ2UA"
_STRANGER: Final = f"{_HEAD}.eyJzdWIiOiJzdHJhbmdlciJ9.VHkhEKcxvM14GSUO4tHUs0PH8X98W6ZARWU_iICm3so"
_SECURED: Final = {
    "authenticationEnabled": "true",
    "authenticationProviders": "token",
    "tokenSecretKey": "data:;base64,a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=",
    "authorizationEnabled": "true",
    "superUserRoles": "root",
}
_TOPIC: Final = re.compile(
    r"/(persistent|non-persistent|topic|schemas|scalable|scalable-topics)/shop/eu/[^/]+"
)


class Guest:
    """The ownership of a broker that owns nothing."""

    is_shared = True

    async def owner_of(self, topic: TopicName) -> Owner:
        return Owner("home", "pulsar://home:6650", "http://home:80", Term(1), is_self=False)


def paths() -> list[tuple[str, str]]:
    """Each method and path of the script, with one name for all topics."""
    found = (
        (each.method, _TOPIC.sub(r"/\1/shop/eu/x", each.path.partition("?")[0]))
        for each in rest_requests()
        if each.method != PUBLISH and "nosuch" not in each.path
    )
    return list(dict.fromkeys(found))


async def gate_transcript() -> list[str]:
    refusals = await _refusals()
    redirects = await _redirects()
    return [
        f"> {method} {path}\n{refusals[method, path]}{redirects[method, path]}"
        for method, path in paths()
    ]


async def _refusals() -> dict[tuple[str, str], str]:
    texts = {}
    async with admin_of_new_broker(**_SECURED) as admin:
        root = replace(admin, token=_ROOT)
        shop: dict[str, Any] = {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
        assert (await root.put(f"{V2}/tenants/shop", shop)).status == 204
        assert (await root.put(f"{V2}/namespaces/shop/eu")).status == 204
        assert (await root.put(f"{V2}/persistent/shop/eu/x")).status == 204
        for method, path in paths():
            unknown = await admin.call(method, path)
            stranger = await replace(admin, token=_STRANGER).call(method, path)
            texts[method, path] = (
                f"without credentials {unknown.status if _is_refused(unknown) else 'let in'}\n"
                f"a stranger {_describe(stranger) if _is_refused(stranger) else 'let in'}\n"
            )
    return texts


def _is_refused(reply: Reply) -> bool:
    return reply.status in (401, 403)


def _describe(reply: Reply) -> str:
    return f"{reply.status} {reply.body.decode()}"


async def _redirects() -> dict[tuple[str, str], str]:
    texts = {}
    async with admin_of_new_broker() as admin:
        admin.service.ownership = Guest()
        for method, path in paths():
            reply = await admin.call(method, f"{path}?limit=1")
            is_sent = reply.status == 307
            texts[method, path] = f"sent to {reply.headers['location']}\n" if is_sent else ""
    return texts
