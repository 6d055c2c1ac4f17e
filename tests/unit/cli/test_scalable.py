from __future__ import annotations

import json

import pytest

from magnetar.cli.main import main
from magnetar.model.layout import Layout
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.wire.scalable import encode_topic_record
from tests.unit.client.admin.web import Answer, scripted_web

ROOT = "/admin/v2/scalable/t/n"


def call(words: str, *answers: Answer) -> list[tuple[str, str, str]]:
    """Run a verb; what it asked of the admin service."""
    with scripted_web() as web:
        web.answers = list(answers)
        assert main(["admin", "--admin-url", web.url, "scalable-topics", *words.split()]) == 0
        return [(asked.method, asked.path, asked.body) for asked in web.asked]


@pytest.mark.parametrize(
    ("words", "method", "path"),
    [
        (
            "list t/n -p team=x,s=a -p k=v",
            "GET",
            f"{ROOT}?property=team%3Dx&property=s%3Da&property=k%3Dv",
        ),
        ("delete t/n/x -f", "DELETE", f"{ROOT}/x?force=true"),
        ("split-segment t/n/x -s 3", "POST", f"{ROOT}/x/split/3"),
        ("split-segment t/n/x --segment-id 3 --at 0x6000", "POST", f"{ROOT}/x/split/3?at=24576"),
        ("merge-segments t/n/x --segment-id-1 1 --segment-id-2 2", "POST", f"{ROOT}/x/merge/1/2"),
        ("scale t/n/x -s 8", "POST", f"{ROOT}/x/scale?segments=8"),
        ("clear-backlog t/n/x -s s", "POST", f"{ROOT}/x/subscriptions/s/skip-all"),
        (
            "expire-messages t/n/x -s s -t 2m",
            "POST",
            f"{ROOT}/x/subscriptions/s/expireMessages/120",
        ),
        ("create-subscription t/n/x -s s -t QUEUE", "PUT", f"{ROOT}/x/subscriptions/s?type=QUEUE"),
        ("delete-subscription t/n/x -s s", "DELETE", f"{ROOT}/x/subscriptions/s?force=false"),
        ("get-metadata topic://t/n/x", "GET", f"{ROOT}/x"),
        ("stats t/n/x", "GET", f"{ROOT}/x/stats"),
        ("segment-stats t/n/x -s 0", "GET", f"{ROOT}/x/segments/0"),
        ("explain t/n/x -o json", "GET", f"{ROOT}/x/explain"),
        ("decisions t/n/x", "GET", f"{ROOT}/x/decisions"),
        ("get-policy t/n/x", "GET", f"{ROOT}/x/policy"),
        ("get-auto-scale-policy t/n/x", "GET", f"{ROOT}/x/autoScalePolicy"),
        ("remove-auto-scale-policy t/n/x", "DELETE", f"{ROOT}/x/autoScalePolicy"),
    ],
)
def test_a_verb_asks_for_what_it_says(words: str, method: str, path: str) -> None:
    assert call(words, Answer(200, "[]")) == [(method, path, "")]


def test_a_topic_is_created_with_segments_and_properties() -> None:
    (asked,) = call("create t/n/x -s 4 -p team=x")
    assert asked[:2] == ("PUT", f"{ROOT}/x?numInitialSegments=4")
    assert json.loads(asked[2]) == {"team": "x"}


def test_seek_counts_back_from_now() -> None:
    (asked,) = call("seek t/n/x -s s -t 1h")
    path, _, timestamp = asked[1].partition("?timestamp=")
    assert path == f"{ROOT}/x/subscriptions/s/seek"
    assert int(timestamp) > 1_600_000_000_000


def test_properties_are_added_to_those_that_are_there_unless_cleared() -> None:
    asked = call("update-properties t/n/x -p b=2", Answer(200, '{"a": "1"}'))
    assert json.loads(asked[-1][2]) == {"a": "1", "b": "2"}
    (asked_once,) = call("update-properties t/n/x -p b=2 --clear")
    assert json.loads(asked_once[2]) == {"b": "2"}


def test_an_auto_scale_policy_holds_what_was_given() -> None:
    words = "set-auto-scale-policy t/n/x -d --max-segments 8 --merge-window 5m"
    (asked,) = call(f"{words} --split-bytes-rate-in 50M")
    assert json.loads(asked[2]) == {
        "enabled": False,
        "maxSegments": 8,
        "mergeWindowSeconds": 300,
        "splitBytesRateInThreshold": 50 * 2**20,
    }


def test_a_namespace_takes_an_auto_scale_policy_too() -> None:
    words = ["namespaces", "set-scalable-topic-auto-scale-policy", "t/n", "--min-segments", "2"]
    with scripted_web() as web:
        assert main(["admin", "--admin-url", web.url, *words]) == 0
        (asked,) = web.asked
    assert asked.path == "/admin/v2/namespaces/t/n/scalableTopicAutoScalePolicy"
    assert json.loads(asked.body) == {"minSegments": 2}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("set-auto-scale-policy t/n/x", "at least one value"),
        ("set-auto-scale-policy t/n/x -e -d", "--enable and --disable"),
        ("update-properties t/n/x", "--property, or --clear"),
        ("split-segment t/n/x -s 1 --at middle", "'middle' is not a hash"),
        ("split-segment t/n/x", "--segment-id"),
        ("create t/n/x -p nonsense", "'nonsense' is not KEY=VALUE"),
        ("scale t/n/x -s 4 --hold-until soon", "'soon' is not a time such as 18:00"),
    ],
)
def test_a_usage_error_is_one_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["admin", "scalable-topics", *words.split()]) == 2
    assert sentence in capsys.readouterr().err


def test_describe_draws_a_tree_and_tells_json_the_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = encode_topic_record(ScalableTopicMetadata(Layout.initial(2, now_ms=1))).decode()
    call("describe t/n/x", Answer(200, record))
    assert capsys.readouterr().out == (
        "topic://t/n/x  epoch 0, 2 active, 0 sealed\n"
        "├─ 0  0000-7fff  active\n"
        "└─ 1  8000-ffff  active\n"
    )
    call("describe t/n/x -o json", Answer(200, record))
    assert json.loads(capsys.readouterr().out)["nextSegmentId"] == 2


def test_lists_of_segments_and_subscriptions_are_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call("load t/n/x", Answer(200, '{"0": {"msgRateIn": 1.5}, "1": {"msgRateIn": 0.0}}'))
    assert capsys.readouterr().out == "SEGMENT  MSG RATE IN\n0        1.5\n1        0.0\n"
    segment = '{"hashRange": "0000-ffff", "state": "ACTIVE", "msgRateIn": 1.5, "msgRateOut": 0.0'
    lag = '{"lagMessages": 2000, "isLagEstimated": false}'
    found = segment + f', "storageSize": 9, "subscriptions": {{"s": {lag}}}}}'
    call("segments t/n/x", Answer(200, f'{{"0": {found}}}'))
    assert capsys.readouterr().out == (
        "SEGMENT  HASHES     STATE   MSG/S IN  MSG/S OUT  BYTES  LAG IN MESSAGES\n"
        "0        0000-ffff  ACTIVE  1.5       0.0        9      s 2,000\n"
    )
    for lag, shown in (
        (', "lagMessages": 500, "isLagEstimated": false', "500"),
        (', "lagMessages": 70, "isLagEstimated": true', "~70"),
        ("", "7 entries"),  # of a broker that does not count messages
    ):
        found = f'{{"s": {{"type": "QUEUE", "msgBacklog": 7{lag}}}}}'
        call("subscriptions t/n/x", Answer(200, found))
        heading, row = capsys.readouterr().out.splitlines()
        assert heading.split() == ["SUBSCRIPTION", "TYPE", "LAG", "IN", "MESSAGES", "ENTRIES"]
        assert row.startswith(f"s             QUEUE  {shown} ") and row.endswith(" 7")


def test_peek_stops_where_no_message_waits(capsys: pytest.CaptureFixture[str]) -> None:
    entry = Answer(200, "hello", (("X-Pulsar-Message-ID", "3:0"),))
    none = Answer(404, '{"reason": "Message not found"}')
    asked = call("peek-messages t/n/x -i 2 -s s -n 5", entry, none)
    assert [path for _, path, _ in asked] == [
        f"{ROOT}/x/segments/2/subscriptions/s/position/{place}" for place in (1, 2)
    ]
    assert "hello" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("level", "shown"),
    [("", ["one", "three"]), (" -til READ_UNCOMMITTED", ["one", "two", "three"])],
)
def test_peek_leaves_out_what_readers_do_not_get_unless_asked(
    level: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def entry(text: str, *headers: str) -> Answer:
        told = tuple((f"X-Pulsar-{name}", "true") for name in headers)
        return Answer(200, text, (("X-Pulsar-Message-ID", "3:0"), *told))

    answers = (entry("one"), entry("two", "txn-aborted"), entry("three"))
    call(f"peek-messages t/n/x -i 2 -s s -n {len(shown)}{level}", *answers)
    out = capsys.readouterr().out
    assert [each for each in ("one", "two", "three") if each in out] == shown
    asked = call("peek-messages t/n/x -i 2 -s s -n 5", entry("four", "txn-uncommitted"))
    assert len(asked) == 1, "all that follows is uncommitted too"
    assert "four" not in capsys.readouterr().out


def test_explain_says_why_a_topic_scales_and_what_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {
        "scaling": ["The 2 active segments stay as they are:", "It would split, but waits."],
        "subscriptions": {"s": ["segment 2 waits"]},
    }
    call("explain t/n/x", Answer(200, json.dumps(found)))
    assert capsys.readouterr().out == (
        "The 2 active segments stay as they are:\nIt would split, but waits.\ns: segment 2 waits\n"
    )


def test_decisions_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        {
            "atMs": 1_700_000_000_000,
            "trigger": "tick",
            "activeSegments": 2,
            "consumers": 3,
            "decision": "split",
            "segments": [1],
            "reason": "consumer-count",
            "heldBy": [],
        }
    ]
    call("decisions t/n/x", Answer(200, json.dumps(found)))
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split() == [
        *("TIME", "TIMES", "BECAUSE", "SEGMENTS", "CONSUMERS", "DECISION", "REASON", "HELD", "BY")
    ]
    assert row.split()[2:] == ["1", "tick", "2", "3", "split", "1", "consumer-count"]


def test_a_scale_may_hold_until_a_time() -> None:
    (asked,) = call("scale t/n/x -s 16 --hold-until 2027-01-31T18:00+00:00")
    assert asked[1] == f"{ROOT}/x/scale?segments=16&holdUntil=1801418400000"
