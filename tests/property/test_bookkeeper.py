"""Laws of the client of BookKeeper: frames under any chunking, acknowledgements in any order,
ensembles on any racks, what a recovery may conclude.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import LedgerCorrupt, ProtocolViolation, RecordUnreadable
from magnetar.ledger.backends.bookkeeper.catalogue import (
    apply_close,
    apply_ensemble,
    format_path,
    parse_path,
)
from magnetar.ledger.backends.bookkeeper.entry import EntryCodec
from magnetar.ledger.backends.bookkeeper.frame import (
    ADD,
    BATCH,
    READ,
    Code,
    ReplyDecoder,
    encode_header,
    split_batch,
)
from magnetar.ledger.backends.bookkeeper.placement import (
    choose_ensemble,
    choose_replacement,
    count_racks,
)
from magnetar.ledger.backends.bookkeeper.quorum import (
    AckQuorum,
    Presence,
    is_covered,
    is_viable,
    judge_entry,
    members_of,
    next_entry,
)
from magnetar.wire.bookkeeper import (
    DigestType,
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_ledger,
    encode_ledger,
)


@st.composite
def quorums(draw: st.DrawFn, most: int = 6) -> tuple[int, int, int]:
    ensemble = draw(st.integers(1, most))
    write = draw(st.integers(1, ensemble))
    return ensemble, write, draw(st.integers(1, write))


replies = st.tuples(
    st.sampled_from([ADD, READ, BATCH]),
    st.sampled_from(list(Code)),
    st.integers(0, 2**62),
    st.integers(-1, 2**40),
    st.binary(max_size=40),
)


@given(st.lists(replies, max_size=20), st.lists(st.integers(1, 50)))
def test_replies_are_the_same_however_they_are_cut(
    sent: list[tuple[int, Code, int, int, bytes]], cuts: list[int]
) -> None:
    data = b"".join(
        (24 + len(body)).to_bytes(4)
        + encode_header(operation)
        + code.to_bytes(4)
        + ledger.to_bytes(8)
        + entry.to_bytes(8, signed=True)
        + body
        for operation, code, ledger, entry, body in sent
    )
    decoder, found, at = ReplyDecoder(), [], 0
    for size in (*cuts, len(data)):
        found += [(*each[:4], bytes(each.body)) for each in decoder.feed(data[at : at + size])]
        at += size
    assert found == sent


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_bad_bytes_end_in_a_refusal_or_a_reply(pieces: list[bytes]) -> None:
    decoder = ReplyDecoder()
    codec = EntryCodec(1, DigestType.CRC32C, b"")
    try:
        for piece in pieces:
            for reply in decoder.feed(piece):
                try:
                    split_batch(reply.body)
                    codec.decode(reply.body, 0)
                except LedgerCorrupt:
                    pass
    except ProtocolViolation:
        pass


@given(st.binary(max_size=200), st.sampled_from([b"", b"BookieMetadataFormatVersion\t3\n"]))
def test_bad_metadata_is_refused_by_name(data: bytes, head: bytes) -> None:
    try:
        found = decode_ledger("/ledgers/x", head + data)
    except RecordUnreadable as refusal:
        sentence = refusal.sentence
    else:
        sentence = "/ledgers/x"
        assert decode_ledger("/ledgers/x", encode_ledger(found)) == found
    assert "/ledgers/x" in sentence


@given(quorums(), st.integers(0, 50), st.integers(0, 5))
def test_a_member_gets_the_entries_that_it_is_in_the_write_quorum_of(
    quorum: tuple[int, int, int], entry: int, member: int
) -> None:
    ensemble, write, _ = quorum
    member %= ensemble
    found = next_entry(member, entry, ensemble, write)
    assert member in members_of(found, ensemble, write)
    assert all(member not in members_of(each, ensemble, write) for each in range(entry, found))


@given(quorums(), st.integers(0, 30), st.data())
def test_what_is_confirmed_is_on_an_ack_quorum_and_all_before_it_too(
    quorum: tuple[int, int, int], count: int, data: st.DataObject
) -> None:
    """Answers in any order, members replaced in between: those must be answered again."""
    ensemble, write, ack = quorum
    counting = AckQuorum(ensemble, write, ack, first=0)
    held: list[set[int]] = [set() for _ in range(ensemble)]
    owed = [(m, e) for e in range(count) for m in members_of(e, ensemble, write)]
    waiting = data.draw(st.permutations(owed))
    replaced = data.draw(st.lists(st.integers(0, ensemble - 1), max_size=3))
    while waiting:
        member, entry = waiting.pop()
        counting.acknowledge(member, entry)
        held[member].add(entry)
        before = counting.confirmed
        counting.confirm(count - 1)
        assert counting.confirmed >= before
        for each in range(before + 1, counting.confirmed + 1):
            on = [m for m in members_of(each, ensemble, write) if each in held[m]]
            assert len(on) >= ack
        if replaced and data.draw(st.booleans()):
            gone = replaced.pop()
            first = counting.replace(gone)
            assert first > counting.confirmed
            held[gone] = {each for each in held[gone] if each < first}
            again = [
                each for each in range(first, count) if gone in members_of(each, ensemble, write)
            ]
            waiting = [each for each in waiting if each[0] != gone]
            waiting = data.draw(st.permutations([*waiting, *((gone, each) for each in again)]))
    assert counting.confirmed == count - 1


@given(quorums(), st.sets(st.integers(0, 5)))
def test_an_ensemble_is_viable_until_some_entry_misses_its_ack_quorum(
    quorum: tuple[int, int, int], lost: set[int]
) -> None:
    ensemble, write, ack = quorum
    worst = min(len(set(members_of(each, ensemble, write)) - lost) for each in range(3 * ensemble))
    assert is_viable(ensemble, write, ack, lost) == (worst >= ack)


@given(quorums(), st.data())
def test_once_covered_no_entry_finds_an_ack_quorum_among_those_not_fenced(
    quorum: tuple[int, int, int], data: st.DataObject
) -> None:
    ensemble, write, ack = quorum
    fenced = data.draw(st.sets(st.integers(0, ensemble - 1)))
    for entry in range(ensemble):
        free = set(members_of(entry, ensemble, write)) - fenced
        if len(free) >= ack:
            assert not is_covered(ensemble, write, ack, fenced)
            return
    assert is_covered(ensemble, write, ack, fenced)


@given(quorums(), st.data())
def test_an_entry_with_an_ack_quorum_is_never_judged_absent(
    quorum: tuple[int, int, int], data: st.DataObject
) -> None:
    """Whichever members answer: those that have it say so, fail, or do not answer."""
    ensemble, write, ack = quorum
    members = members_of(data.draw(st.integers(0, 20)), ensemble, write)
    having = set(data.draw(st.permutations(members))[:ack])
    answers: dict[int, int | None] = {}
    for member in data.draw(st.permutations(members)):
        choices = [Code.OK, None] if member in having else [Code.NO_ENTRY, Code.NO_LEDGER, None]
        answers[member] = data.draw(st.sampled_from(choices))
        assert judge_entry(answers, members, ack) is not Presence.ABSENT


@given(quorums(), st.data())
def test_a_judgement_comes_as_soon_as_it_can_and_stays(
    quorum: tuple[int, int, int], data: st.DataObject
) -> None:
    ensemble, write, ack = quorum
    members = members_of(0, ensemble, write)
    answers: dict[int, int | None] = {}
    kinds = st.sampled_from([Code.OK, Code.NO_ENTRY, Code.INPUT_OUTPUT, None])
    judged = Presence.OPEN
    for member in members:
        answers[member] = data.draw(kinds)
        now = judge_entry(answers, members, ack)
        if judged is Presence.ABSENT:
            assert now in (Presence.ABSENT, Presence.PRESENT)
        judged = now
    assert judged is not Presence.OPEN


bookies = st.sets(st.sampled_from([f"b{each}:3181" for each in range(9)]))


@given(bookies, bookies, quorums(5), st.integers(1, 3), st.integers(1, 4), st.integers())
def test_an_ensemble_has_distinct_bookies_and_as_many_racks_as_can_be_had_by_turns(
    preferred: set[str],
    failed: set[str],
    quorum: tuple[int, int, int],
    min_racks: int,
    rack_count: int,
    seed: int,
) -> None:
    size, write, _ = quorum
    failed -= preferred
    racks = {each: f"/r{int(each[1]) % rack_count}" for each in preferred | failed}
    choose = Random(seed).choice
    chosen = choose_ensemble(
        preferred, failed, racks, size=size, write_quorum=write, min_racks=min_racks, choose=choose
    )
    if len(preferred) + len(failed) < size:
        assert chosen is None
        return
    assert chosen is not None
    assert len(chosen) == len(set(chosen)) == size
    assert set(chosen) <= preferred or preferred <= set(chosen)
    if len({racks[each] for each in preferred}) >= size and min_racks > 1:
        assert count_racks(chosen, racks, write) == write


@given(bookies, bookies, quorums(4), st.integers(), st.data())
def test_a_replacement_is_none_of_the_ensemble_and_a_failed_one_only_for_want_of_others(
    preferred: set[str],
    failed: set[str],
    quorum: tuple[int, int, int],
    seed: int,
    data: st.DataObject,
) -> None:
    size, write, _ = quorum
    ensemble = [f"e{each}:3181" for each in range(size)]
    member = data.draw(st.integers(0, size - 1))
    excluded = data.draw(bookies)
    failed -= preferred
    racks = {each: f"/r{int(each[1]) % 2}" for each in (*preferred, *failed, *ensemble)}
    found = choose_replacement(
        preferred | {ensemble[0]},
        failed,
        racks,
        ensemble=ensemble,
        member=member,
        min_racks=2,
        write_quorum=write,
        excluded=excluded,
        choose=Random(seed).choice,
    )
    if preferred - excluded:
        assert found in preferred - excluded
    elif failed - excluded:
        assert found in failed - excluded
    else:
        assert found is None


@given(st.integers(0, 2**63 - 1), st.booleans())
def test_the_path_of_a_ledger_names_it(ledger: int, is_long: bool) -> None:
    assert parse_path(format_path(ledger, is_long=is_long).split("/")) == ledger


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(-1, 60))
def test_segments_stay_in_order_and_begin_at_the_first_entry(firsts: list[int], last: int) -> None:
    ledger = LedgerMetadata(1, 1, (Segment(0, ("b:1",)),))
    for number, first in enumerate(sorted(firsts)):
        ledger = apply_ensemble(ledger, first, (f"c{number}:1",))
        assert ledger.segments[-1] == Segment(first, (f"c{number}:1",))
    closed = apply_close(ledger, last, 5)
    starts = [each.first for each in closed.segments]
    assert starts == sorted(set(starts)) and starts[0] == 0 and starts[-1] <= max(last, 0)
    assert (closed.state, closed.last, closed.length) == (LedgerState.CLOSED, last, 5)
    assert decode_ledger("/x", encode_ledger(closed)) == closed
