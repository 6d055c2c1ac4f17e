"""Every answer of the admin interface is the recorded one, over both keepers of topic policies."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.unit.golden.clients import SETTINGS, attach_clients
from tests.unit.golden.gate_transcript import gate_transcript
from tests.unit.golden.record import compare, differing
from tests.unit.golden.rest_script import read_requests, rest_requests
from tests.unit.golden.transcript import rest_transcript

pytestmark = pytest.mark.timeout(600)  # thousands of calls in one test
METADATA_STORE = "metadata-store"


def served() -> list[tuple[str, str]]:
    """The method and the path of every route; what the console's pages ask is tested with them."""
    from magnetar.admin.table import all_routes

    return [
        (route.row.method, route.row.path) for route in all_routes() if route.row.noun != "console"
    ]


def test_no_route_is_left_out() -> None:
    # A component that is spelled out goes before one that stands for anything.
    routes = sorted(served(), key=lambda row: [part[:1] == "{" for part in row[1].split("/")])
    patterns = {row: re.compile(re.sub(r"\{\w+\}", "[^/]+", row[1])) for row in routes}
    left_out = set(routes)
    for method, path in {(each.method, each.path.partition("?")[0]) for each in rest_requests()}:
        found = (row for row in routes if row[0] == method and patterns[row].fullmatch(path))
        left_out.discard(next(found, ("", "")))
    assert not left_out


@pytest.fixture(scope="module")
def by_system_topic() -> list[str]:
    return asyncio.run(rest_transcript(rest_requests()))


def test_every_answer_is_the_recorded_one(by_system_topic: list[str]) -> None:
    compare("rest.txt", by_system_topic)


def test_the_metadata_store_makes_no_other_difference_than_recorded(
    by_system_topic: list[str],
) -> None:
    settings = {"topicPoliciesServiceClassName": METADATA_STORE}
    by_store = asyncio.run(rest_transcript(rest_requests(), **settings))
    compare("rest-metadata-store.txt", differing(by_system_topic, by_store))


def test_every_refusal_and_redirect_is_the_recorded_one() -> None:
    compare("rest-gate.txt", asyncio.run(gate_transcript()))


def test_every_answer_about_topics_in_use_is_the_recorded_one() -> None:
    answers = asyncio.run(rest_transcript(read_requests("busy"), attach_clients, **SETTINGS))
    compare("rest-busy.txt", answers)
