"""Clients of the protocol's first versions, which do not know checksums."""

from __future__ import annotations

import pytest

from magnetar.wire.command import MessageMetadata
from magnetar.wire.entry import encode_entry, strip_checksum
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, SHARED, TOPIC, Client

KEY_SHARED = 3
LIVE = "non-persistent://shop/eu/live"


def old(place: Place, version: int) -> Client:
    client = Client(place.service)
    client._connection.handshake.protocol_version = version
    return client


@pytest.mark.parametrize(("version", "is_stripped"), [(10, True), (11, False)])
@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, KEY_SHARED])
@pytest.mark.parametrize("topic", [TOPIC, LIVE])
def test_who_does_not_know_checksums_gets_none(
    topic: str, kind: int, version: int, is_stripped: bool
) -> None:
    async def body(place: Place) -> None:
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        entry = encode_entry(metadata, b"hello")
        writer, reader = Client(place.service), old(place, version)
        await writer.produce(topic)
        await reader.subscribe(topic, "s", kind, consumer_id=1)
        writer.send_bytes(entry, sequence=0)
        await until(lambda: len(reader.deliveries(1)) == 1)
        reader.redeliver(1)
        expected = strip_checksum(entry) if is_stripped else entry
        await until(lambda: len(reader.deliveries(1)) == (1 if topic == LIVE else 2))
        bodies = [each for each in reader._wire.payloads if each]
        assert set(bodies) == {expected}

    run(body)
