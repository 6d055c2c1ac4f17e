"""A command or a route that keeps everybody else waiting is named in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from magnetar.admin.application import Application
from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.admin.table import all_routes
from magnetar.broker.administration.web import Administration
from magnetar.broker.connection import Connection
from magnetar.broker.handler import make_handlers
from magnetar.runtime.watchdog import Watchdog
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand
from tests.hostile.test_flow import Client
from tests.unit.admin.assembly import admin_of_new_broker
from tests.unit.runtime.test_watchdog import hold, warned


@pytest.mark.parametrize("is_async", [False, True])
def test_a_command_that_holds_the_loop_is_named(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    watchdog = Watchdog(warn_ms=20)

    async def slow() -> None:
        await asyncio.sleep(0)
        hold(watchdog)

    def on_lookup(connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
        if is_async:
            return slow()
        hold(watchdog)
        return None

    async def main() -> None:
        async with admin_of_new_broker() as admin:
            client = Client(admin, {**make_handlers(admin.service), BaseCommand.LOOKUP: on_lookup})
            with watchdog.running():
                client.say(wire.CommandLookupTopic(topic="x", request_id=1))
                await warned(caplog, lambda fields: fields["work"] == "LOOKUP")

    asyncio.run(main())


def test_a_route_that_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(warn_ms=20)

    async def slow(api: Administration, call: Call) -> object:
        hold(watchdog)
        return Response(200)

    async def main() -> None:
        async with admin_of_new_broker() as admin:
            routes = [replace(route, handler=slow) for route in all_routes()]
            slowed = replace(admin, application=Application(admin.api, routes))
            with watchdog.running():
                await slowed.get("/admin/v2/clusters")
                await warned(caplog, lambda fields: fields["work"] == "GET /admin/v2/clusters")

    asyncio.run(main())


def test_a_broker_shows_how_long_its_loop_was_held() -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            text = (await admin.get("/metrics")).body.decode()
            assert "# HELP magnetar_event_loop_held_seconds " in text
            assert 'magnetar_event_loop_held_seconds_bucket{cluster="standalone"' in text

    asyncio.run(main())
