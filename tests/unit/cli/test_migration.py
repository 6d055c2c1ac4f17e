from __future__ import annotations

import json

import pytest

from magnetar.cli.main import main
from magnetar.cli.migration import (
    Standstill,
    count_left,
    find_unread,
    format_progress,
    format_rehearsal,
)
from tests.unit.client.admin.web import Answer, scripted_web

ROOT = "/admin/v2/scalable/t/n/x"
READY = {
    "topic": "persistent://t/n/x",
    "scalableTopic": "topic://t/n/x",
    "partitions": 0,
    "ready": True,
    "refusals": [],
    "newSegments": 1,
    "notes": [],
    "v4Clients": [],
    "segments": {"persistent://t/n/x": "SEALED", "segment://t/n/x/0000-ffff-1": "ACTIVE"},
    "subscriptions": {
        "fast": {"msgBacklog": 1000, "msgRateOut": 500.0, "drainSeconds": 2.0},
        "idle": {"msgBacklog": 7, "msgRateOut": 0.0},
        "done": {"msgBacklog": 0, "msgRateOut": 0.0, "drainSeconds": 0.0},
    },
}


def call(words: str, *answers: Answer) -> list[tuple[str, str]]:
    with scripted_web() as web:
        web.answers = list(answers)
        assert main(["admin", "--admin-url", web.url, "scalable-topics", *words.split()]) == 0
        return [(asked.method, asked.path) for asked in web.asked]


@pytest.mark.parametrize("verb", ["migrate", "migrate-to-scalable"])
def test_a_topic_is_migrated_under_both_verbs(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(f"{verb} persistent://t/n/x") == [("POST", f"{ROOT}/migrate?force=false")]
    assert call(f"{verb} t/n/x --force") == [("POST", f"{ROOT}/migrate?force=true")]
    wanted = [("POST", f"{ROOT}/migrate?force=false&segments=64")]
    assert call(f"{verb} t/n/x --segments 64") == wanted
    assert capsys.readouterr().out == "scalable now: topic://t/n/x\n" * 3


def test_a_rehearsal_asks_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(200, json.dumps(READY))
    assert call("migrate t/n/x --dry-run", answer) == [("GET", f"{ROOT}/migration-check")]
    assert capsys.readouterr().out == (
        "persistent://t/n/x (no partitions) would become topic://t/n/x\n"
        "\n"
        "Segments:\n"
        "  sealed  persistent://t/n/x\n"
        "  active  segment://t/n/x/0000-ffff-1\n"
        "\n"
        "To be read before new messages, in order:\n"
        "  fast  1,000 entries, about 2 s at 500 messages/s\n"
        "  idle  7 entries, of which none is being read at present\n"
        "  done  nothing\n"
        "\n"
        "Nothing is in the way.\n"
    )
    assert call("migration-check t/n/x -o json", answer) == [("GET", f"{ROOT}/migration-check")]
    assert json.loads(capsys.readouterr().out) == READY


def test_what_is_in_the_way_is_told_last() -> None:
    client = {
        "type": "producer",
        "name": "p",
        "topic": "persistent://t/n/x",
        "address": "/10.0.0.1:9",
        "clientVersion": "Pulsar-CPP-v3.5",
    }
    text = format_rehearsal(READY | {"v4Clients": [client], "refusals": ["1 legacy v4 client"]})
    assert "v4 clients that would be locked out:\n  producer p  /10.0.0.1:9  Pulsar-CPP" in text
    assert text.endswith("It would be refused:\n  1 legacy v4 client")


def test_a_client_of_many_partitions_is_one_line() -> None:
    clients = [
        {
            "type": "consumer",
            "name": "c",
            "topic": f"persistent://t/n/x-partition-{number}",
            "address": "/10.0.0.1:9",
            "clientVersion": "",
            "subscription": "s",
        }
        for number in range(4)
    ]
    text = format_rehearsal(READY | {"v4Clients": clients})
    assert "\n  consumer c of s  /10.0.0.1:9  unknown  on 4 partitions\n" in text


def test_of_what_cannot_be_migrated_only_the_reason_is_told() -> None:
    found = READY | {"segments": {}, "subscriptions": {}, "refusals": ["Topic does not exist: x"]}
    assert format_rehearsal(found) == "It would be refused:\n  Topic does not exist: x"


@pytest.mark.parametrize(
    ("seconds", "words"), [(119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (86400, "24 h")]
)
def test_an_estimate_is_told_in_words(seconds: float, words: str) -> None:
    backlog = {"msgBacklog": 1, "msgRateOut": 2.0, "drainSeconds": seconds}
    text = format_rehearsal(READY | {"subscriptions": {"s": backlog}})
    assert f"  s  1 entries, about {words} at 2 messages/s" in text


def test_of_many_segments_only_some_are_listed() -> None:
    segments = {f"persistent://t/n/x-partition-{number}": "SEALED" for number in range(100)}
    text = format_rehearsal(READY | {"segments": segments, "partitions": 100})
    assert "(100 partitions)" in text and "84 more" in text
    assert "partition-7\n" in text and "partition-8\n" not in text and "partition-92\n" in text


def segments_with(*backlogs: int) -> str:
    old = {
        str(number): {
            "name": f"persistent://t/n/x-partition-{number}",
            "subscriptions": {"s": {"msgBacklog": backlog}},
        }
        for number, backlog in enumerate(backlogs)
    }
    new = {"name": "segment://t/n/x/0000-ffff-9", "subscriptions": {"s": {"msgBacklog": 50}}}
    return json.dumps(old | {"9": new})


def test_waiting_follows_what_is_left_of_the_regular_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = [Answer(200, segments_with(*left)) for left in ((60, 40), (0, 25), (0, 0))]
    asked = call("migrate t/n/x --wait", Answer(), *looks)
    assert [path for _, path in asked[1:]] == [f"{ROOT}/segments"] * 3
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("]")[2] for line in lines] == [
        "   0%  100 to read",
        "  75%  25 to read",
        " 100%  0 to read",
    ]


def test_whoever_waits_hears_which_subscription_nobody_reads() -> None:
    standstill = Standstill()
    looks = [standstill.look(left) for left in (30, *[25] * 7, 20, 20, *[0] * 9)]
    assert [place for place, is_still in enumerate(looks) if is_still] == [7]
    states = {
        "idle": {"msgBacklog": 25, "consumerCount": 0},
        "slow": {"msgBacklog": 5, "consumerCount": 1},
        "done": {"msgBacklog": 0, "consumerCount": 0},
    }
    assert find_unread(states) == ["idle"]
    assert format_progress(75, 100, ["idle"]).endswith("75%  25 to read; no consumer on idle")


def test_what_new_segments_hold_is_not_waited_for() -> None:
    assert count_left(json.loads(segments_with(3, 4))) == 7
    assert format_progress(0, 0) == f"[{'#' * 30}] 100%  0 to read"


def test_a_rehearsal_cannot_be_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "scalable-topics", "migrate", "t/n/x", "--dry-run", "--wait"]) == 2
    assert "nothing to --wait for" in capsys.readouterr().err
