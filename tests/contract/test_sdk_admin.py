"""The admin client for asyncio against a broker."""

from __future__ import annotations

import asyncio

import pytest

from magnetar import AsyncAdmin
from magnetar.client.error import AdminError
from magnetar.testing import MagnetarBroker
from tests.contract.sdk_regular import new_name


def test_things_are_made_listed_and_deleted_while_the_loop_runs(
    magnetar_broker: MagnetarBroker,
) -> None:
    async def body() -> None:
        topic = new_name().replace("persistent", "topic")
        async with AsyncAdmin(magnetar_broker.admin_url) as admin:
            await admin.scalable_topics.create(topic, segments=2)
            both = await asyncio.gather(
                admin.scalable_topics.metadata(topic), admin.namespaces.list("public")
            )
            assert len(both[0]["segments"]) == 2 and "public/default" in both[1]
            listed = [name async for name in admin.topics.stream("public/default")]
            assert all(name.startswith("persistent://") for name in listed)
            with pytest.raises(AdminError):
                await admin.scalable_topics.create(topic)
            await admin.scalable_topics.delete(topic)

    asyncio.run(body())
