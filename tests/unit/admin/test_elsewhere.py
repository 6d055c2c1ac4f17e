"""Calls about topics that another broker serves."""

from __future__ import annotations

import pytest

from magnetar.broker.ownership import Owner
from magnetar.model.name import TopicName
from magnetar.model.position import Term
from tests.unit.admin.assembly import V2, Admin, run

PATH = f"{V2}/persistent/public/default/t/maxProducers"


class Guest:
    """The ownership of a broker that owns nothing."""

    is_shared = True

    def __init__(self, url: str, url_tls: str) -> None:
        self._owner = Owner(
            "home", "pulsar://home:6650", url, Term(1), is_self=False, web_url_tls=url_tls
        )

    async def owner_of(self, topic: TopicName) -> Owner:
        return self._owner


@pytest.mark.parametrize(
    ("scheme", "url", "url_tls", "place"),
    [
        ("http", "http://home:80", "https://home:443", "http://home:80"),
        ("https", "http://home:80", "https://home:443", "https://home:443"),
        ("http", "", "https://home:443", "https://home:443"),
        ("https", "http://home:80", "", "http://home:80"),
    ],
)
def test_a_call_is_sent_on_the_way_it_came_where_there_is_one(
    scheme: str, url: str, url_tls: str, place: str
) -> None:
    async def body(admin: Admin) -> None:
        admin.service.ownership = Guest(url, url_tls)
        admin.scheme = scheme
        reply = await admin.call("POST", f"{PATH}?isGlobal=true", 3)
        assert (reply.status, reply.headers["location"]) == (307, f"{place}{PATH}?isGlobal=true")

    run(body)
