from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given

from magnetar.client.checkpoint import Checkpoint
from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import LATEST_ID
from magnetar.client.message_id import MessageId as EntryId
from magnetar.model.segment import SegmentId
from tests.unit.client.test_message_id import vectors

ONE = Checkpoint(positions={SegmentId(0): EntryId(1, 2)})


@pytest.mark.parametrize(
    ("checkpoint", "text"),
    [
        (ONE, "00 00000001 0000000000000000 00000006 080110023000"),
        (Checkpoint(), "00 00000000"),
        (Checkpoint.EARLIEST, "01"),
        (Checkpoint.LATEST, "02"),
    ],
)
def test_the_bytes_are_those_of_other_clients(checkpoint: Checkpoint, text: str) -> None:
    assert bytes(checkpoint) == bytes.fromhex(text)
    assert Checkpoint.from_bytes(bytes.fromhex(text)) == checkpoint


@given(vectors)
def test_a_checkpoint_survives_its_bytes_and_its_json(positions: dict[SegmentId, EntryId]) -> None:
    checkpoint = Checkpoint(positions=positions)
    for read in (
        Checkpoint.from_bytes(bytes(checkpoint)),
        Checkpoint.from_json(checkpoint.to_json()),
    ):
        assert read == checkpoint
        assert [entry.batch_size for entry in read.positions.values()] == [
            entry.batch_size for entry in positions.values()
        ]


def test_a_point_in_time_survives_too() -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=timezone(timedelta(hours=2)))
    checkpoint = Checkpoint.at(moment)
    assert checkpoint.moment == moment
    assert Checkpoint.from_bytes(bytes(checkpoint)) == checkpoint
    assert Checkpoint.from_json(checkpoint.to_json()) == checkpoint
    assert json.loads(str(checkpoint)) == {"at": "2026-03-04T03:06:07.089000+00:00"}


def test_the_json_can_be_read() -> None:
    assert str(Checkpoint.earliest()) == '{"start": "earliest"}'
    assert str(ONE) == '{"positions": {"0": "1:2:-1:-1"}}'
    end = Checkpoint(positions={SegmentId(3): LATEST_ID})
    assert Checkpoint.from_json(str(end)) == end


@pytest.mark.parametrize("data", [b"", b"\x09", b"\x00\x00", b"\x01\x00", b"\x00\x00\x00\x00\x01"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint"):
        Checkpoint.from_bytes(data)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"start": "middle"}', '{"positions": {"x": "1:2"}}', '{"at": "yesterday"}'],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Checkpoint.from_json(text)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="time zone"):
        Checkpoint.at(datetime(2026, 1, 1))


def test_two_members_are_together_as_far_as_either_has_come() -> None:
    mine = Checkpoint(positions={SegmentId(0): EntryId(1, 5), SegmentId(1): EntryId(2, 0)})
    other = Checkpoint(positions={SegmentId(0): EntryId(1, 7), SegmentId(2): EntryId(3, 0)})
    assert mine.merge(other).positions == {0: EntryId(1, 7), 1: EntryId(2, 0), 2: EntryId(3, 0)}
    with pytest.raises(ConfigurationError):
        mine.merge(Checkpoint.at(datetime.now(UTC)))
