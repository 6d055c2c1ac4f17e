from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from openapi_spec_validator import validate

from magnetar.admin.body import decode_body
from magnetar.admin.openapi import describe
from magnetar.admin.route import Route
from magnetar.admin.server import serving
from magnetar.admin.table import all_routes
from magnetar.model.permission import AUTHENTICATED, SUPER_USER, TOPIC_CONSUME
from magnetar.runtime.accept import open_socket
from tests.unit.admin.assembly import V2, Admin, run


def test_the_description_is_valid_and_complete() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get("/openapi.json")
        document = reply.json
        validate(document)
        assert document["openapi"].startswith("3.1")
        paths = document["paths"]
        stats = paths["/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats"]["get"]
        assert stats["operationId"] == "topics.stats"
        assert "/metrics" in paths and "/openapi.json" in paths

    run(body)


DESCRIBED = describe(all_routes(), version="1")["paths"]
WITH_BODY = [route for route in all_routes() if route.body is not None]


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.row.name)
def test_the_example_of_a_body_is_one_that_the_route_takes(route: Route) -> None:
    assert route.body is not None
    operation = DESCRIBED[route.row.path][route.row.method.lower()]
    for media in operation["requestBody"]["content"].values():
        text = json.dumps(media["example"]).encode()
        assert decode_body(text, route.body.schema, strict=True) is not None


@pytest.mark.parametrize("path", ["/nope", f"{V2}/nope", f"{V2}/clusters/a/b/c", "//"])
def test_an_unknown_path_is_told_so(path: str) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get(path)
        expected = 302 if path == "//" else 404
        assert reply.status == expected
        assert expected == 302 or reply.reason

    run(body)


def test_a_wrong_method_is_told_what_is_allowed() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.delete(f"{V2}/clusters")
        assert reply.status == 405 and reply.headers["allow"] == "GET"

    run(body)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin/v3/functions/public/default"),
        ("POST", "/topics/persistent/public/default/a"),
        ("POST", f"{V2}/clusters/standalone/migrate"),
        ("GET", f"{V2}/resource-quotas"),
        ("GET", f"{V2}/worker/cluster"),
    ],
)
def test_what_is_known_and_not_served_says_so(method: str, path: str) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.call(method, path)
        assert reply.status == 501 and reply.reason.endswith("not supported by this broker")
        document = (await admin.get("/openapi.json")).json
        found = document["paths"].get(path, {}).get(method.lower())
        note = reply.headers["x-magnetar-note"]
        assert note and (found is None or found["description"] == note)

    run(body)


def test_a_call_that_is_not_served_needs_what_it_needs_elsewhere() -> None:
    rows = {
        f"{each.row.method} {each.row.path}": each
        for each in all_routes()
        if each.row.status == 501
    }
    assert rows["GET /admin/v3/functions/{part0}/{part1}"].row.need == AUTHENTICATED
    assert rows["POST /admin/v2/brokers/shutdown"].row.need == SUPER_USER
    assert rows["GET /admin/v2/non-persistent/{tenant}/{namespace}/{topic}/backlog"].row.need == (
        TOPIC_CONSUME
    )


def test_a_body_beyond_the_limit_is_refused() -> None:
    async def body(admin: Admin) -> None:
        raw = b" " * (admin.api.web.body_bytes_max + 1)
        reply = await admin.call("PUT", f"{V2}/namespaces/public/n", raw=raw)
        assert reply.status == 413

    run(body)


def test_the_root_leads_to_the_console() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get("/")
        assert (reply.status, reply.headers["location"]) == (302, "/console/")

    run(body)


def test_without_the_console_the_landing_page_names_the_broker() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get("/")
        assert reply.headers["content-type"].startswith("text/html")
        assert b"broker.test:8080" in reply.body
        assert (await admin.get("/console/")).status == 404
        assert (await admin.get("/console/api/session")).status == 404

    run(body, webConsoleEnabled="false")


def test_it_is_served_over_http_until_the_block_ends() -> None:
    async def body(admin: Admin) -> None:
        def fetch(url: str, method: str = "GET", data: bytes | None = None) -> tuple[int, bytes]:
            request = urllib.request.Request(url, data=data, method=method)
            try:
                with urllib.request.urlopen(request, timeout=10) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()

        async with serving(
            admin.application, open_socket("127.0.0.1", 0), limit=admin.api.web
        ) as port:
            url = f"http://127.0.0.1:{port}"
            assert await asyncio.to_thread(fetch, f"{url}/admin/v2/clusters") == (
                200,
                b'["standalone"]',
            )
            topic = f"{url}/admin/v2/persistent/public/default/a%2Bb"
            assert await asyncio.to_thread(fetch, topic, "PUT", b"") == (204, b"")
            status, told = await asyncio.to_thread(fetch, f"{url}/admin/v2/tenants/nope")
            assert (status, json.loads(told)) == (404, {"reason": "Tenant does not exist"})
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(fetch, f"{url}/admin/v2/clusters")
        assert "persistent://public/default/a+b" in admin.service.catalog.topics

    run(body)


def test_a_control_character_of_a_name_does_not_stand_in_a_header() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.get(f"{V2}/tenants/a%1Fb")
        assert reply.status == 404 and reply.reason
        assert "a b" in reply.headers["x-magnetar-subject"]
        assert all(value.isprintable() for value in reply.headers.values())

    run(body)
