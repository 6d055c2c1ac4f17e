"""Requests that come to one broker and are answered by another behind the same address."""

from __future__ import annotations

import pytest

from magnetar.admin import relay
from magnetar.admin.relay import Answered, Forwarded
from tests.unit.admin.assembly import V2, Admin, run
from tests.unit.admin.test_elsewhere import PATH, Guest


def test_a_request_for_another_broker_is_carried_there_and_its_answer_back() -> None:
    async def body(admin: Admin) -> None:
        owner = admin.service.ownership
        carried: list[tuple[str, Forwarded]] = []

        async def carry(broker_id: str, forwarded: Forwarded) -> Answered:
            carried.append((broker_id, forwarded))
            admin.service.ownership = owner  # the broker at the other end has the topic
            return await relay.answer(admin.application, forwarded)

        admin.service.ownership = Guest("http://home:80", "")
        admin.application.relay = carry
        reply = await admin.call("POST", f"{PATH}?isGlobal=false", 3)
        [(broker_id, forwarded)] = carried
        assert (broker_id, forwarded.method, forwarded.body) == ("home", "POST", b"3")
        assert (forwarded.path, forwarded.query) == (PATH.encode(), b"isGlobal=false")
        assert reply.status == 404 and b"reason" in reply.body

    run(body)


def test_a_request_that_was_carried_once_is_sent_back_to_its_caller() -> None:
    async def body(admin: Admin) -> None:
        async def carry(broker_id: str, forwarded: Forwarded) -> Answered:
            return await relay.answer(admin.application, forwarded)

        admin.service.ownership = Guest("http://home:80", "")
        admin.application.relay = carry
        reply = await admin.call("GET", f"{V2}/persistent/public/default/t/maxProducers")
        assert (reply.status, reply.headers["location"]) == (307, f"http://home:80{PATH}")

    run(body)


@pytest.mark.parametrize("own", ["content-length", "x-frame-options"])
def test_what_the_first_broker_writes_itself_is_not_carried_back(own: str) -> None:
    async def body(admin: Admin) -> None:
        async def carry(broker_id: str, forwarded: Forwarded) -> Answered:
            answered = await relay.answer(admin.application, forwarded)
            assert own not in dict(answered.headers)
            return answered

        admin.service.ownership = Guest("http://home:80", "")
        admin.application.relay = carry
        reply = await admin.call("GET", PATH)
        assert reply.headers.get(own) is not None

    run(body)
