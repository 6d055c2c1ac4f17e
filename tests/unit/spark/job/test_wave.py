from __future__ import annotations

from magnetar.spark.job.wave import Candidate, Readiness, WaveLimit, join_by_host, plan_waves

READY, CLIENTS = Readiness.READY, Readiness.CLIENTS


def held(topic: str, *hosts: str, backlog: int = 0) -> Candidate:
    return Candidate(topic, CLIENTS, backlog, 0.0, frozenset(hosts))


def test_ready_topics_go_first_and_those_with_least_to_read_before_the_others() -> None:
    candidates = [
        held("held", "10.0.0.1"),
        Candidate("slow", READY, 900, 90.0),
        Candidate("unread", READY, 5, None),
        Candidate("quick", READY, 0, 0.0),
        Candidate("system", Readiness.BLOCKED, 0, 0.0),
        Candidate("away", Readiness.UNKNOWN, 0, None),
    ]
    waves = plan_waves(candidates, WaveLimit(topics=2, topic_s=1.0))
    assert [wave.topics for wave in waves] == [("quick", "slow"), ("unread",), ("held",)]
    assert [wave.seconds for wave in waves] == [2.0 + 90.0, 1.0, 1.0]
    assert [wave.unread for wave in waves] == [0, 1, 0]
    assert waves[2].hosts == ("10.0.0.1",)


def test_topics_of_one_machine_stay_together_over_others_too() -> None:
    groups = join_by_host([held("a", "x"), held("b", "y"), held("c", "x", "y"), held("d", "z")])
    assert [[each.topic for each in group] for group in groups] == [["d"], ["a", "b", "c"]]
    waves = plan_waves([each for group in groups for each in group], WaveLimit(topics=3))
    assert [wave.topics for wave in waves] == [("d",), ("a", "b", "c")]


def test_a_wave_leaves_no_more_to_read_than_its_limit() -> None:
    candidates = [Candidate(f"t{n}", READY, 60, float(n)) for n in range(4)]
    waves = plan_waves(candidates, WaveLimit(backlog=120))
    assert [wave.topics for wave in waves] == [("t0", "t1"), ("t2", "t3")]
    huge = plan_waves([Candidate("huge", READY, 1000, 1.0)], WaveLimit(backlog=10))
    assert [wave.topics for wave in huge] == [("huge",)]


def test_a_group_too_large_for_a_wave_fills_several() -> None:
    waves = plan_waves([held(f"t{n}", "x") for n in range(5)], WaveLimit(topics=2))
    assert [len(wave.topics) for wave in waves] == [2, 2, 1]


def test_topics_of_no_machine_are_groups_of_their_own() -> None:
    assert [[each.topic for each in group] for group in join_by_host([held("a"), held("b")])] == [
        ["a"],
        ["b"],
    ]


def test_looks_at_a_machine_grow_no_faster_than_the_topics() -> None:
    """Twice the topics of one machine ask at most about twice as often which group it is of."""

    class Counted(str):
        looks = 0

        def __hash__(self) -> int:
            Counted.looks += 1
            return super().__hash__()

    def count(topics: int) -> int:
        candidates = [held(f"t{number:05}", Counted("x"), f"y{number}") for number in range(topics)]
        Counted.looks = 0
        join_by_host(candidates)
        return Counted.looks

    assert count(2000) <= 2.5 * count(1000)
