"""Generated requests against the whole REST interface: each is served or refused in words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance

from magnetar.admin.openapi import describe
from magnetar.admin.table import all_routes
from magnetar.testing.broker import MagnetarBroker

EXAMPLES_MAX = 4
# Not served at all, or not yet, as Apache Pulsar answers; 500 is a failure that nobody foresaw.
REFUSALS = (501, 503)
UNSERVED = "unsupported"

# One of each kind of topic shares its routes with the other.
ROUTES = [
    route
    for route in all_routes()
    if route.row.noun != UNSERVED and not route.row.name.endswith(".non_persistent")
]
schema = schemathesis.openapi.from_dict(describe(ROUTES, version="0"))
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@pytest.fixture(scope="module")
def broker() -> Iterator[MagnetarBroker]:
    """One of its own: what is generated changes and deletes whatever it hits."""
    with MagnetarBroker() as started:
        yield started


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_MAX,
    suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck],
)
def test_any_request_is_served_as_described_or_refused_with_a_reason(
    case: schemathesis.Case, broker: MagnetarBroker
) -> None:
    response = case.call(base_url=broker.admin_url)
    assert response.status_code < 500 or response.status_code in REFUSALS, response.text
    if response.status_code >= 400:
        assert json.loads(response.text)["reason"]
    case.validate_response(response, checks=[response_schema_conformance])
