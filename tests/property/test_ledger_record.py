"""Laws of the record codec: runs come back whole, and no damage passes unseen."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.backends.file.group import cut_entries
from magnetar.ledger.backends.file.record import (
    HEADER,
    Kind,
    decode_body,
    encode_header,
    encode_lengths,
    seed_of,
    split_entries,
    walk_records,
)

SEED = seed_of(b"extent", 7)
entries_lists = st.lists(st.binary(max_size=30), min_size=1, max_size=6)
groups_lists = st.lists(st.lists(entries_lists, min_size=1, max_size=3), min_size=1, max_size=4)


def encode_groups(groups: list[list[list[bytes]]]) -> tuple[bytes, list[int]]:
    """Runs of ledger 5, and where each group starts."""
    data = b""
    first = 0
    starts = []
    for group in groups:
        starts.append(len(data))
        for entries in group:
            body = encode_lengths(entries) + b"".join(entries)
            data += encode_header(
                Kind.RUN,
                5,
                first,
                len(entries),
                len(body),
                crc32c(body),
                offset=len(data),
                group_start=starts[-1],
                seed=SEED,
            )
            data += body
            first += len(entries)
    return data, starts


@given(groups_lists)
def test_every_run_is_found_and_read_back(groups: list[list[list[bytes]]]) -> None:
    data, starts = encode_groups(groups)
    walk = walk_records(data, seed=SEED, start=0, end=len(data), durable_end=0)
    assert (walk.gaps, walk.end) == ([], len(data))
    runs = [entries for group in groups for entries in group]
    assert len(walk.records) == len(runs)
    for record, entries in zip(walk.records, runs, strict=True):
        assert record.group_start in starts
        count, body = decode_body(
            data[record.offset : record.end],
            ledger=5,
            number=record.number,
            offset=record.offset,
            seed=SEED,
        )
        assert split_entries(body, count) == entries
        assert record.payload_bytes == sum(map(len, entries))


@given(groups_lists, st.data())
def test_a_cut_file_keeps_every_run_before_the_cut(
    groups: list[list[list[bytes]]], data: st.DataObject
) -> None:
    whole, _ = encode_groups(groups)
    cut = data.draw(st.integers(0, len(whole)))
    full = walk_records(whole, seed=SEED, start=0, end=len(whole), durable_end=0)
    walk = walk_records(whole[:cut], seed=SEED, start=0, end=cut, durable_end=0)
    assert walk.records == [record for record in full.records if record.end <= cut]
    assert walk.gaps == []
    assert walk.end == max((record.end for record in walk.records), default=0)


@given(groups_lists, st.data())
def test_a_flipped_bit_is_damage_where_durable_and_a_torn_write_in_the_last_group(
    groups: list[list[list[bytes]]], data: st.DataObject
) -> None:
    whole, starts = encode_groups(groups)
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    full = walk_records(whole, seed=SEED, start=0, end=len(whole), durable_end=0)
    hit = next(record for record in full.records if place < record.end)

    certain = walk_records(
        bytes(flipped), seed=SEED, start=0, end=len(whole), durable_end=len(whole)
    )
    assert certain.end == len(whole)
    damaged = [record.offset for record in certain.records if not record.intact]
    assert damaged + certain.mended == [hit.offset]
    assert not certain.gaps
    if place < hit.offset + HEADER.size:
        assert certain.records == full.records
        return
    intact = [record for record in certain.records if record.intact]
    assert intact == [record for record in full.records if record != hit]

    uncertain = walk_records(bytes(flipped), seed=SEED, start=0, end=len(whole), durable_end=0)
    later = [record for record in full.records if record.offset > hit.offset]
    if any(record.group_start > hit.offset for record in later):
        assert uncertain == certain
    else:
        assert uncertain.end == hit.offset
        assert uncertain.records == [r for r in full.records if r.offset < hit.offset]
    assert hit.group_start in starts


@given(entries_lists, st.integers(1, 40))
def test_cutting_keeps_entries_and_order(entries: list[bytes], bytes_max: int) -> None:
    pieces = list(cut_entries(entries, bytes_max))
    assert [entry for _, piece, _ in pieces for entry in piece] == entries
    expected = 0
    for index, piece, size in pieces:
        assert index == expected
        assert size == sum(map(len, piece))
        assert size <= bytes_max or len(piece) == 1
        expected += len(piece)


@given(groups_lists, st.binary(max_size=20))
def test_a_copy_of_a_record_at_another_place_is_no_record(
    groups: list[list[list[bytes]]], before: bytes
) -> None:
    whole, _ = encode_groups(groups)
    data = before + b"." + whole
    walk = walk_records(data, seed=SEED, start=0, end=len(data), durable_end=0)
    assert walk.records == []
