"""The REST interface asks who is there, over HTTP and HTTPS."""

from __future__ import annotations

import base64
import http.client
import json
import ssl

import pytest

from tests.interop.security.place import PASSWORD, Place, token_of

CLUSTERS = "/admin/v2/clusters"


def ask(
    place: Place, path: str, headers: dict[str, str], *, certificate: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    context = ssl.create_default_context(cafile=str(place.authority.certificate))
    if certificate is not None:
        context.load_cert_chain(*place.authority.issue(certificate))
    connection = http.client.HTTPSConnection(
        "localhost", place.web_port_tls, context=context, timeout=20
    )
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, told, answer.read()
    finally:
        connection.close()


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "certificate", "status"),
    [
        ({"Authorization": f"Bearer {token_of('alice')}"}, None, 200),
        (basic(f"admin:{PASSWORD}"), None, 200),
        ({}, "alice", 200),
        ({"X-Pulsar-Auth-Method-Name": "tls"}, "alice", 200),
        ({}, None, 401),
        ({"Authorization": "Bearer rubbish"}, None, 401),
        ({"Authorization": f"Bearer {token_of('alice', lasts_s=-1)}"}, None, 401),
        (basic("admin:wrong"), None, 401),
        ({"Authorization": f"Bearer {'x' * 5000}"}, None, 401),
        ({"X-Pulsar-Auth-Method-Name": "tls"}, None, 401),
        ({"X-Pulsar-Auth-Method-Name": "token"}, "alice", 401),
    ],
)
def test_a_request_is_answered_for_whoever_proves_a_role(
    place: Place, headers: dict[str, str], certificate: str | None, status: int
) -> None:
    found, told, body = ask(place, CLUSTERS, headers, certificate=certificate)
    assert found == status
    if status == 401:
        assert told["www-authenticate"].startswith("Bearer")
        assert set(json.loads(body)) == {"reason"}


def test_the_console_knows_who_shows_a_certificate(place: Place) -> None:
    status, _, body = ask(place, "/console/api/session", {}, certificate="alice")
    session = json.loads(body)
    assert (status, session["role"], session["isAuthenticationEnabled"]) == (200, "alice", True)
    assert ask(place, "/console/api/session", {})[0] == 401
    assert ask(place, "/console/", {})[0] == 200  # the page itself, which asks for a token


def test_a_token_in_the_address_is_no_proof(place: Place) -> None:
    """Addresses end up in logs and histories."""
    assert ask(place, f"{CLUSTERS}?token={token_of('alice')}", {})[0] == 401


def test_strangers_learn_not_even_what_is_not_there(place: Place) -> None:
    assert ask(place, "/admin/v2/nothing", {})[0] == 401
    assert ask(place, "/admin/v2/nothing", basic(f"admin:{PASSWORD}"))[0] == 404


def test_load_balancers_and_prometheus_are_served(place: Place) -> None:
    assert ask(place, "/status.html", {})[0] == 200
    assert ask(place, "/metrics", {})[0] == 200


def test_the_lookup_tells_the_addresses_with_tls(place: Place) -> None:
    path = "/lookup/v2/topic/persistent/public/default/somewhere"
    _, _, body = ask(place, path, basic(f"admin:{PASSWORD}"))
    found = json.loads(body)
    assert found["brokerUrlTls"] == place.url_tls
    assert found["httpUrlTls"] == place.admin_url_tls
    assert found["brokerUrl"] == f"pulsar://localhost:{place.broker.port}"
