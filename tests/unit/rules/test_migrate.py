from __future__ import annotations

import pytest

from magnetar.errors import (
    BrokerError,
    Conflict,
    LayoutTooLarge,
    MethodNotAllowed,
    PreconditionFailed,
    TopicNotFound,
)
from magnetar.model.migration import ClassicClient, ClientKind, Preparation, legacy_names
from magnetar.model.name import parse_topic
from magnetar.model.scalable import ChangeKind, MigrationOrigin, ScalableTopicMetadata
from magnetar.model.segment import WHOLE, SegmentId
from magnetar.rules.migrate import (
    SEGMENTS_MAX,
    Survey,
    estimate_backlog,
    find_fitting,
    find_notes,
    find_refusals,
    plan_migration,
    refuse_regular,
    run_checks,
)
from magnetar.rules.phase import (
    AddCursors,
    CreateSegment,
    DeleteRecord,
    Phase,
    RemoveSegment,
    SealSegment,
    SegmentSeen,
    SegmentsSeen,
    Step,
    StoreRecord,
    decide_preparation,
    decide_step,
    decide_withdrawal,
    segments_to_see,
)
from magnetar.rules.route import HashEvidence

TOPIC = parse_topic("persistent://t/n/x")
RECORD = plan_migration(TOPIC, 2, now_ms=7, bucket_budget=4)
OLD, NEW = RECORD.layout.sealed, RECORD.layout.active


def client(name: str = "p-1", version: str = "Pulsar-CPP-v3.5") -> ClassicClient:
    return ClassicClient(ClientKind.PRODUCER, name, str(TOPIC), "/10.0.0.1:99", version)


def test_a_topic_that_nobody_uses_is_ready() -> None:
    assert find_refusals(Survey(TOPIC, exists=True)) == ()


@pytest.mark.parametrize(
    ("survey", "kind"),
    [
        (Survey(TOPIC, exists=True, is_enabled=False), MethodNotAllowed),
        (Survey(parse_topic("persistent://t/n/x-partition-3"), exists=True), PreconditionFailed),
        (Survey(TOPIC, exists=True, is_system=True), PreconditionFailed),
        (Survey(TOPIC, exists=True, record=RECORD), Conflict),
        (Survey(TOPIC, exists=False), TopicNotFound),
        (Survey(TOPIC, exists=True, replicated_to=("far",)), PreconditionFailed),
        (Survey(TOPIC, exists=True, clients=(client(),)), Conflict),
        (Survey(TOPIC, exists=True, wanted=0), LayoutTooLarge),
        (Survey(TOPIC, exists=True, wanted=-3), LayoutTooLarge),
        (Survey(TOPIC, exists=True, partitions=9, wanted=8, fitting=7), LayoutTooLarge),
        (Survey(TOPIC, exists=True, partitions=9, fitting=0), LayoutTooLarge),
    ],
)
def test_each_thing_in_the_way_is_one_refusal(survey: Survey, kind: type[BrokerError]) -> None:
    (refusal,) = find_refusals(survey)
    assert type(refusal) is kind


@pytest.mark.parametrize(
    ("partitions", "wanted", "fitting", "segments", "is_noted"),
    [
        (0, None, 1000, 1, False),
        (900, None, 900, 900, False),
        (900, None, 899, 899, True),
        (900, 4, 899, 4, False),
        (4, 900, 900, 900, False),
        (10_000, None, 60, 60, True),
    ],
)
def test_there_are_as_many_segments_as_partitions_or_as_fit_or_as_are_asked_for(
    partitions: int, wanted: int | None, fitting: int, segments: int, is_noted: bool
) -> None:
    survey = Survey(TOPIC, exists=True, partitions=partitions, wanted=wanted, fitting=fitting)
    assert survey.segments == segments and find_refusals(survey) == ()
    assert bool(find_notes(survey, HashEvidence())) is is_noted


@pytest.mark.parametrize("most", [0, 1, 2, 499, 999, 1000])
def test_the_most_segments_that_fit_are_found(most: int) -> None:
    assert find_fitting(lambda count: count <= most) == most
    assert find_fitting(lambda _: True) == SEGMENTS_MAX


@pytest.mark.parametrize(("partitions", "segments"), [(3, 2), (2, 5), (10_000, 7), (0, 3)])
def test_any_number_of_segments_follows_any_number_of_partitions(
    partitions: int, segments: int
) -> None:
    record = plan_migration(TOPIC, partitions, now_ms=7, segments=segments)
    parents = tuple(range(max(1, partitions)))
    assert tuple(each.id for each in record.layout.sealed) == parents
    assert len(record.layout.active) == segments  # and they tile the ring, as any layout
    assert all(each.parents == parents for each in record.layout.active)
    assert record.layout.next_id == len(parents) + segments


def test_everything_in_the_way_is_told_and_force_passes_over_clients_alone() -> None:
    survey = Survey(TOPIC, exists=True, replicated_to=("far",), clients=(client(),))
    assert [type(each) for each in find_refusals(survey)] == [PreconditionFailed, Conflict]
    assert [type(each) for each in find_refusals(survey, force=True)] == [PreconditionFailed]


def test_a_rehearsal_names_every_check_also_those_that_pass() -> None:
    survey = Survey(TOPIC, exists=True, clients=(client(),))
    checks = run_checks(survey)
    assert len({each.requirement for each in checks}) == len(checks) == 7
    (failed,) = (each for each in checks if each.refusal is not None)
    assert failed.requirement == "no v4 client is attached"
    assert all(each.refusal is None for each in run_checks(survey, force=True))


def test_a_topic_that_is_scalable_is_not_missing_too() -> None:
    (refusal,) = find_refusals(Survey(TOPIC, exists=False, record=RECORD))
    assert refusal.sentence == "Topic is already scalable: topic://t/n/x"


def test_the_first_clients_are_named_and_the_others_counted() -> None:
    clients = tuple(client(f"p-{number}", "") for number in range(25))
    (refusal,) = find_refusals(Survey(TOPIC, exists=True, clients=clients))
    assert refusal.sentence.startswith("1 legacy v4 client connection(s) still attached")
    assert ", with 25 producers, consumers or readers:" in refusal.sentence
    assert "producer p-19 from /10.0.0.1:99 (unknown), 5 more;" in refusal.sentence
    assert "p-20" not in refusal.sentence


def test_a_topic_without_partitions_becomes_one_parent_of_one_child() -> None:
    record = plan_migration(TOPIC, 0, now_ms=7)
    assert [each.legacy_topic for each in record.layout.segments] == [str(TOPIC), ""]
    assert record.migrated_from == MigrationOrigin(str(TOPIC), 0)


@pytest.mark.parametrize("partitions", [1, 2, 3, 512])
def test_the_record_is_what_the_proposal_says(partitions: int) -> None:
    record = plan_migration(TOPIC, partitions, now_ms=7, bucket_budget=4)
    layout = record.layout
    assert (layout.epoch, layout.next_id) == (0, 2 * partitions)
    olds, news = layout.sealed, layout.active
    assert [each.legacy_topic for each in olds] == [
        each.full for each in legacy_names(TOPIC, partitions)
    ]
    assert all(each.range == WHOLE and each.sealed_at_epoch == 0 for each in olds)
    assert all(each.parents == tuple(old.id for old in olds) for each in news)
    assert all(each.bucket_count == max(1, 4 // partitions) for each in news)
    (event,) = record.history
    assert event.kind is ChangeKind.MIGRATE and event.epoch == 0


@pytest.mark.parametrize(
    ("entries", "bytes_out_per_s", "drain_s"),
    [(0, 0.0, 0.0), (100, 50.0, 200.0), (100, 0.0, None)],
)
def test_a_backlog_is_estimated_by_its_bytes_at_the_present_rate(
    entries: int, bytes_out_per_s: float, drain_s: float | None
) -> None:
    """Whether an entry holds one message or many."""
    found = estimate_backlog(entries, 10_000, 7.0, bytes_out_per_s)
    assert found.drain_s == drain_s and found.rate_out_per_s == 7.0


def test_a_client_of_many_partitions_is_counted_for_each_and_named_once() -> None:
    clients = (*[client("p", "")] * 3, client("q", ""))
    (refusal,) = find_refusals(Survey(TOPIC, exists=True, clients=clients))
    assert refusal.sentence.startswith("1 legacy v4 client connection(s) still attached")
    assert ", with 4 producers, consumers or readers:" in refusal.sentence
    assert "producer p from /10.0.0.1:99 (unknown) on 3 partitions, producer q" in refusal.sentence


def test_a_refusal_names_the_command() -> None:
    sentence = refuse_regular(TOPIC, "checkpoints").sentence
    assert "magnetar admin scalable-topics migrate-to-scalable persistent://t/n/x" in sentence


# What is left to do once the record is there
def seen(
    record: ScalableTopicMetadata = RECORD, *, sealed: bool, **cursors: str
) -> dict[SegmentId, SegmentSeen]:
    """All segments; `s0="a b"` are the cursors of segment 0."""
    return {
        each.id: SegmentSeen(
            sealed and each.is_sealed, frozenset(cursors.get(f"s{each.id}", "").split())
        )
        for each in record.layout.segments
    }


def test_all_of_them_are_looked_at() -> None:
    assert segments_to_see(RECORD) == tuple(each.ref for each in (*OLD, *NEW))


def test_parents_are_sealed_before_cursors_are_carried() -> None:
    step = decide_step(RECORD, seen(sealed=False, s0="a"), frozenset(), now_ms=9)
    assert step is not None and step.phase is Phase.SEAL and not step.can_undo
    assert step.actions == tuple(SealSegment(each.ref) for each in OLD)


def test_children_get_all_cursors_at_the_start_and_parents_what_they_lack_at_the_end() -> None:
    step = decide_step(RECORD, seen(sealed=True, s0="a", s1="b", s2="a"), {"c"}, now_ms=9)
    assert step is not None and step.phase is Phase.CARRY
    assert step.actions == (
        AddCursors(NEW[0].ref, ("b", "c")),
        AddCursors(NEW[1].ref, ("a", "b", "c")),
        AddCursors(OLD[0].ref, ("b", "c"), at_end=True),
        AddCursors(OLD[1].ref, ("a", "c"), at_end=True),
    )


def test_a_child_that_is_missing_is_made_first() -> None:
    sight = seen(sealed=False, s0="a")
    del sight[NEW[1].id]
    step = decide_step(RECORD, sight, frozenset(), now_ms=9)
    assert step is not None and step.phase is Phase.CREATE
    assert step.actions == (CreateSegment(NEW[1].ref, ("a",)),)


def test_a_partition_that_is_not_there_is_left_alone_and_the_end_is_written_down() -> None:
    sight = seen(sealed=True)
    del sight[OLD[0].id]
    step = decide_step(RECORD, sight, frozenset(), now_ms=9)
    assert step is not None and step.phase is Phase.CLEAR
    (write,) = step.actions
    assert isinstance(write, StoreRecord)
    assert write.record.intent is None and write.record.layout == RECORD.layout


PREPARED = tuple(segment.ref for segment in RECORD.layout.active)


def test_a_preparation_makes_what_is_missing_and_waits_until_writers_are_held() -> None:
    wanted = frozenset({"a", "b"})
    step = decide_preparation(RECORD, {}, wanted, is_held=False)
    assert step == Step(
        Phase.CREATE, tuple(CreateSegment(each, ("a", "b")) for each in PREPARED), can_undo=True
    )
    made = {each.id: SegmentSeen(cursors=wanted) for each in PREPARED}
    assert decide_preparation(RECORD, made, wanted, is_held=False) is None


def test_a_preparation_gives_cursors_the_properties_that_they_have_on_the_regular_topic() -> None:
    own = {"late": {"made-by": "spark"}}
    made = {PREPARED[0].id: SegmentSeen(cursors=frozenset({"a"}))}
    step = decide_preparation(RECORD, made, frozenset({"a", "late"}), own, is_held=False)
    assert step is not None
    assert step.actions == (
        *(CreateSegment(each, ("a", "late"), own) for each in PREPARED[1:]),
        AddCursors(PREPARED[0], ("late",), properties=own),
    )


def test_a_cursor_that_came_before_writers_were_held_is_made_before_the_topic_is_scalable() -> None:
    made = {each.id: SegmentSeen(cursors=frozenset({"a"})) for each in PREPARED}
    step = decide_preparation(RECORD, made, frozenset({"a", "late"}), is_held=True)
    assert step is not None
    assert step.actions == tuple(AddCursors(each, ("late",)) for each in PREPARED)
    assert step.can_undo
    step = decide_preparation(RECORD, made, frozenset({"a"}), is_held=True)
    assert step == Step(Phase.PUBLISH, (StoreRecord(RECORD),), can_undo=False)


def test_a_preparation_that_was_not_published_is_taken_back_and_one_that_was_stays() -> None:
    preparation = Preparation(PREPARED, 7)
    made = {PREPARED[0].id: SegmentSeen()}
    step = decide_withdrawal(preparation, None, made)
    assert step == Step(Phase.UNDO, (RemoveSegment(PREPARED[0]),), can_undo=True)
    ended: tuple[tuple[ScalableTopicMetadata | None, SegmentsSeen], ...] = (
        (None, {}),
        (RECORD, made),
    )
    for record, seen in ended:
        step = decide_withdrawal(preparation, record, seen)
        assert step == Step(Phase.FORGET, (DeleteRecord(),), can_undo=False)
