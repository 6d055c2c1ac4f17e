"""The admin client for asyncio against a broker."""

from __future__ import annotations

import asyncio

import pytest

from magnetar import (
    AdminError,
    AdminUnreachable,
    AlreadyClosedError,
    AsyncAdmin,
    AsyncPulsarClient,
    ConfigurationError,
    PulsarClient,
    WrongPortError,
)
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


def test_a_client_has_the_admin_client_of_its_service(magnetar_broker: MagnetarBroker) -> None:
    url, admin_url = magnetar_broker.service_url, magnetar_broker.admin_url
    topic = new_name().replace("persistent", "topic")
    with PulsarClient(url, admin_url=admin_url) as client:
        client.admin.scalable_topics.create(topic, segments=2)
        assert client.admin is client.admin
    with pytest.raises(AlreadyClosedError):
        _ = client.admin

    async def body() -> None:
        async with AsyncPulsarClient(url, admin_url=admin_url) as client:
            kept = client.admin.scalable_topics
            assert len((await kept.metadata(topic))["segments"]) == 2
        with pytest.raises(AlreadyClosedError):
            await kept.metadata(topic)

    asyncio.run(body())


def test_a_client_without_an_admin_url_says_where_it_is_named() -> None:
    with (
        PulsarClient("pulsar://127.0.0.1:1") as client,
        pytest.raises(ConfigurationError, match="admin_url="),
    ):
        _ = client.admin


def test_each_port_given_for_the_other_is_named_at_once(magnetar_broker: MagnetarBroker) -> None:
    service = f"pulsar://127.0.0.1:{magnetar_broker.web_port}"
    admin = f"http://127.0.0.1:{magnetar_broker.port}"
    with PulsarClient(service, admin_url=admin, operation_timeout=3600) as client:
        with pytest.raises(WrongPortError, match="answers with HTTP: it is a web port"):
            client.producer(new_name())
        with pytest.raises(WrongPortError, match="answers with HTTP: it is a web port"):
            client.consumer(new_name(), "s")
        with pytest.raises(AdminUnreachable, match="give its web port instead"):
            client.admin.tenants.list()
