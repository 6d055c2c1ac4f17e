from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.wire.compacted import decode_compacted, decode_former_compacted, encode_compacted
from magnetar.wire.entry import decode_entry

GOLDEN = (Path(__file__).parents[2] / "golden/apache/record.txt").read_text()
APACHE = {
    name.partition(" ")[2]: bytes.fromhex(data)
    for name, data in (line.rsplit(" ", 1) for line in GOLDEN.splitlines()[1:])
    if name.startswith("compacted ")
}


def test_a_compacted_entry_of_apache_is_read_and_written_as_it_was() -> None:
    position, entry = decode_compacted(APACHE["compacted"])
    assert position == (29, 12)
    metadata, _ = decode_entry(entry)
    assert (metadata.producer_name, list(metadata.compacted_batch_indexes)) == ("kpb", [1, 2, 3])
    assert encode_compacted(position, -1, entry) == APACHE["compacted"]


def test_the_topic_policies_of_apache_are_found_in_a_compacted_entry() -> None:
    position, entry = decode_compacted(APACHE["__change_events"])
    assert position == (4, 1)
    assert decode_entry(entry)[0].partition_key == "persistent://acme/shop/orders"


def test_entries_of_former_versions_are_read() -> None:
    former = (7).to_bytes(8, "big") + (3).to_bytes(8, "big") + b"entry"
    assert decode_former_compacted(former) == (Position(7, 3), b"entry")
    with pytest.raises(RecordUnreadable):
        decode_former_compacted(former[:10])


@pytest.mark.parametrize("size", range(0, 125, 3))
def test_a_compacted_entry_that_is_cut_short_is_refused(size: int) -> None:
    whole = APACHE["compacted"][:125]
    with pytest.raises(RecordUnreadable):
        decode_compacted(whole[: min(size, 113)])
