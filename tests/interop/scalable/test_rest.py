"""Scalable topics over REST, call by call, as administrators' tools make them.

The calls are those of a session recorded with Apache Pulsar 5.0.0-M1; the answers are what Magnetar
promises: the documented statuses, a sentence with every refusal, and no change by a refused call.
"""

from __future__ import annotations

import http.client
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pulsar
import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.interop.official import connect

NOTHING: Any = object()


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["reason"])


class Caller:
    """One administrator, in a namespace of its own."""

    def __init__(self, broker: MagnetarBroker, namespace: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", broker.web_port, timeout=30)
        self.namespace = namespace

    def __call__(self, line: str, body: Any = NOTHING, *, raw: bytes | None = None) -> Reply:
        """`METHOD path`, where `NS` stands for the namespace; the path is below /admin/v2."""
        method, _, path = line.replace("NS", self.namespace).partition(" ")
        data = raw if raw is not None else None if body is NOTHING else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        self._connection.request(method, f"/admin/v2/{path}", body=data, headers=headers)
        response = self._connection.getresponse()
        return Reply(response.status, response.read())

    def refuses(self, line: str, status: int, words: str, body: Any = NOTHING) -> None:
        reply = self(line, body)
        assert (line, reply.status) == (line, status), reply.body
        assert words in reply.reason, line

    def accepts(self, line: str, body: Any = NOTHING) -> None:
        reply = self(line, body)
        assert (line, reply.status, reply.body) == (line, 204, b"")

    def reads(self, line: str) -> Any:
        reply = self(line)
        assert (line, reply.status) == (line, 200), reply.body
        return reply.json

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def call(magnetar_broker: MagnetarBroker) -> Iterator[Caller]:
    caller = Caller(magnetar_broker, f"public/probe-{uuid.uuid4().hex[:8]}")
    caller.accepts("PUT namespaces/NS")
    yield caller
    caller.close()


def test_topics_are_created_listed_and_shown(call: Caller) -> None:
    full = f"topic://{call.namespace}"
    call.accepts("PUT scalable/NS/a?numInitialSegments=2", {"team": "x"})
    call.refuses("PUT scalable/NS/a", 409, f"Scalable topic already exists: {full}/a")
    call.accepts("PUT scalable/NS/b")
    call.refuses("PUT scalable/NS/zero?numInitialSegments=0", 412, "must be >= 1")
    call.accepts("PUT scalable/NS/many?numInitialSegments=100")
    call.refuses("PUT scalable/NS/more?numInitialSegments=70000", 412, "must be <= 65536")
    call.refuses("PUT scalable/NS/neg?numInitialSegments=abc", 400, "not 'abc'")
    bad = call("PUT scalable/NS/badbody", raw=b"{oops")
    assert bad.status == 400 and "not JSON" in bad.reason
    call.accepts("PUT scalable/NS/name%2Fslash")
    call.accepts("PUT scalable/NS/has%20space")
    call.refuses("PUT scalable/NS/p-partition-0", 412, "called like a partition")
    call.refuses("PUT scalable/public/nosuchns/x", 404, "public/nosuchns")
    call.refuses("PUT scalable/nosuchtenant/ns/x", 404, "nosuchtenant/ns")
    call.refuses("PUT persistent/NS/a", 409, "scalable topic")
    call.accepts("PUT persistent/NS/reg")
    call.refuses("PUT scalable/NS/reg", 409, "regular topic of this name exists")
    names = ("a", "b", "has space", "many", "name/slash")
    assert call.reads("GET scalable/NS") == [f"{full}/{name}" for name in names]
    assert call.reads("GET scalable/NS?property=team=x") == [f"{full}/a"]
    assert call.reads("GET scalable/NS?property=team%3Dx&property=k%3Dv") == []
    call.refuses("GET scalable/NS?property=nonsense", 412, "key=value, got: nonsense")
    call.refuses("GET scalable/public/nosuchns", 404, "Namespace does not exist")
    record = call.reads("GET scalable/NS/a")
    assert (record["epoch"], record["nextSegmentId"]) == (0, 2)
    shown = {
        "segmentId": 0,
        "hashRange": {"start": 0, "end": 32767},
        "state": "ACTIVE",
        "parentIds": [],
        "childIds": [],
        "createdAtEpoch": 0,
        "sealedAtEpoch": -1,
        "sealedAtMs": -1,
        "sealed": False,
        "active": True,
        "root": True,
        "leaf": True,
        "legacy": False,
    }
    assert shown.items() <= record["segments"]["0"].items()
    call.refuses("GET scalable/NS/nosuch", 404, f"Scalable topic not found: {full}/nosuch")
    regular = [f"persistent://{call.namespace}/reg"]
    assert call.reads("GET persistent/NS") == regular
    assert call.reads("GET namespaces/NS/topics") == regular
    assert call.reads("GET namespaces/NS/topics?mode=ALL") == regular


def test_stats_tell_what_the_topic_does(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=2")
    stats = call.reads("GET scalable/NS/a/stats")
    known = {"epoch": 0, "totalSegments": 2, "activeSegments": 2, "sealedSegments": 0}
    assert known.items() <= stats.items()
    segment = f"segment://{call.namespace}/a/8000-ffff-1"
    assert {"name": segment, "state": "ACTIVE"}.items() <= stats["segments"]["1"].items()
    assert stats["subscriptions"] == {}
    call.refuses("GET scalable/NS/nosuch/stats", 404, "Scalable topic not found")
    call.refuses("GET persistent/NS/a/stats", 404, "not found")


def test_subscriptions_are_made_moved_and_cleared(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=2")
    call.accepts("PUT scalable/NS/a/subscriptions/s1")
    call.accepts("PUT scalable/NS/a/subscriptions/s1")
    call.accepts("PUT scalable/NS/a/subscriptions/q1?type=QUEUE")
    call.refuses("PUT scalable/NS/a/subscriptions/c1?type=CHECKPOINT", 400, "STREAM or QUEUE")
    call.refuses("PUT scalable/NS/a/subscriptions/x?type=bogus", 400, "STREAM or QUEUE")
    call.refuses("PUT scalable/NS/nosuch/subscriptions/s", 404, "Scalable topic not found")
    listed = call.reads("GET scalable/NS/a/subscriptions")
    assert {name: each["type"] for name, each in listed.items()} == {"q1": "QUEUE", "s1": "STREAM"}
    assert call.reads("GET scalable/NS/a/subscriptions/s1")["msgBacklog"] == 0
    call.accepts("POST scalable/NS/a/subscriptions/s1/seek?timestamp=0")
    call.refuses("POST scalable/NS/a/subscriptions/s1/seek", 400, "timestamp is needed")
    call.refuses("POST scalable/NS/a/subscriptions/nosuch/seek?timestamp=0", 404, "nosuch")
    call.accepts("POST scalable/NS/a/subscriptions/s1/skip-all")
    call.refuses("POST scalable/NS/a/subscriptions/nosuch/skip-all", 404, "nosuch")
    call.refuses("POST scalable/NS/nosuch/subscriptions/s/skip-all", 404, "Scalable topic")
    call.accepts("DELETE scalable/NS/a/subscriptions/s1")
    call.refuses("DELETE scalable/NS/a/subscriptions/s1", 404, "Subscription s1 not found")


def test_segments_are_split_and_merged(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=2")
    call.accepts("POST scalable/NS/a/split/0")
    before = call.reads("GET scalable/NS/a")
    call.refuses("POST scalable/NS/a/split/0", 412, "segment 0: it is sealed")
    call.refuses("POST scalable/NS/a/split/99", 404, "Segment not found: 99")
    call.refuses("POST scalable/NS/a/split/abc", 400, "whole number")
    call.refuses("POST scalable/NS/nosuch/split/0", 404, "Scalable topic not found")
    call.refuses("POST scalable/NS/a/merge/1/2", 412, "8000-ffff and 0000-3fff are not adjacent")
    assert call.reads("GET scalable/NS/a") == before
    call.accepts("POST scalable/NS/a/merge/2/3")
    call.refuses("POST scalable/NS/a/merge/2/3", 412, "it is sealed")
    call.refuses("POST scalable/NS/a/merge/4/4", 412, "not adjacent")
    call.accepts("POST scalable/NS/a/merge/1/4")
    call.refuses("POST scalable/NS/nosuch/merge/0/1", 404, "Scalable topic not found")
    record = call.reads("GET scalable/NS/a")
    assert (record["epoch"], record["nextSegmentId"]) == (3, 6)
    first = record["segments"]["0"]
    assert (first["state"], first["childIds"], first["sealedAtEpoch"]) == ("SEALED", [2, 3], 1)
    stats = call.reads("GET scalable/NS/a/stats")
    assert [stats[key] for key in ("epoch", "activeSegments", "sealedSegments")] == [3, 1, 5]
    call.accepts("POST scalable/NS/a/split/5?at=1")
    call.refuses("POST scalable/NS/a/split/6", 412, "0000-0000 is a single hash")


def test_policies_about_scaling_are_set_and_checked(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a")
    for path in ("scalable/NS/a/autoScalePolicy", "namespaces/NS/scalableTopicAutoScalePolicy"):
        call.accepts(f"GET {path}")
        call.accepts(f"POST {path}", {"enabled": False, "maxSegments": 8})
        assert call.reads(f"GET {path}") == {"enabled": False, "maxSegments": 8}
        crossed = {"minSegments": 9, "maxSegments": 3}
        call.refuses(f"POST {path}", 412, "maxSegments must be >= minSegments", crossed)
        low = {"splitMsgRateInThreshold": 1}
        call.refuses(f"POST {path}", 412, "splitMsgRateInThreshold must be >", low)
        call.refuses(f"POST {path}", 400, "bogus", {"bogus": 1})
        call.refuses(f"POST {path}", 400, "An auto-scale policy is needed")
        assert call.reads(f"GET {path}") == {"enabled": False, "maxSegments": 8}
        call.accepts(f"DELETE {path}")
        call.accepts(f"GET {path}")
    missing = "scalable/NS/nosuch/autoScalePolicy"
    call.refuses(f"GET {missing}", 404, "Scalable topic not found")
    call.refuses(f"DELETE {missing}", 404, "Scalable topic not found")
    call.refuses(f"POST {missing}", 404, "Scalable topic not found", {"enabled": False})


def test_segments_have_an_interface_of_their_own(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=2")
    call.accepts("PUT scalable/NS/a/subscriptions/s1")
    segment = "segments/NS/a/8000-ffff-1"
    assert call.reads(f"GET {segment}/subscription/s1/backlog") == 0
    orphan = "PUT segments/NS/a/0000-ffff-77"
    call.refuses(orphan, 404, "has no segment 0000-ffff-77")
    call.refuses(orphan, 404, "has no segment 0000-ffff-77", ["s1"])
    call.refuses("PUT segments/NS/a/garbage", 412, "Invalid segment descriptor", ["s1"])
    call.accepts(f"PUT {segment}", ["s1"])
    call.accepts(f"PUT {segment}/subscription/s9")
    call.accepts(f"POST {segment}/subscription/s9/seek?timestamp=0")
    call.accepts(f"POST {segment}/subscription/s9/skip-all")
    call.accepts(f"DELETE {segment}/subscription/s9")
    call.accepts(f"POST {segment}/terminate")
    call.refuses(f"DELETE {segment}", 412, "part of the layout")
    call.accepts(f"DELETE {segment}?force=true")
    assert call.reads("GET scalable/NS/a/stats")["segments"]["1"]["isMissing"]
    call.accepts("DELETE segments/NS/a/0000-ffff-77?force=true")
    call.accepts("DELETE segments/NS/a/0000-ffff-77")


def test_deleted_topics_leave_nothing(call: Caller) -> None:
    call.accepts("PUT scalable/NS/a")
    call.accepts("PUT scalable/NS/b?numInitialSegments=2")
    call.accepts("PUT scalable/NS/a/subscriptions/q1?type=QUEUE")
    call.accepts("POST scalable/NS/a/split/0")
    call.refuses("DELETE scalable/NS/nosuch", 404, "Scalable topic not found")
    call.refuses("DELETE scalable/NS/a", 412, "subscription q1")
    call.accepts("DELETE scalable/NS/a?force=true")
    call.refuses("DELETE scalable/NS/a?force=true", 404, "Scalable topic not found")
    assert call.reads("GET scalable/NS") == [f"topic://{call.namespace}/b"]
    call.refuses("DELETE namespaces/NS", 409, "Cannot delete non empty namespace")
    call.refuses("DELETE namespaces/NS?force=true", 405, "forced deletion of namespaces")
    call.accepts("DELETE scalable/NS/b")
    call.accepts("DELETE namespaces/NS")
    for nowhere in ("GET segment/NS", "GET scalable", "GET scalable/public"):
        assert call(nowhere).status == 404


def test_two_admins_who_change_the_same_segments_leave_a_ring_that_serves(
    call: Caller, magnetar_broker: MagnetarBroker
) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=4")
    statuses: list[int] = []

    def change(lines: list[str]) -> None:
        other = Caller(magnetar_broker, call.namespace)
        statuses.extend(other(line).status for line in lines)
        other.close()

    splits = [f"POST scalable/NS/a/split/{number}" for number in range(8)]
    merges = [f"POST scalable/NS/a/merge/{number}/{number + 1}" for number in range(8)]
    admins = [threading.Thread(target=change, args=(lines,)) for lines in (splits, merges)]
    for admin in admins:
        admin.start()
    for admin in admins:
        admin.join()
    assert set(statuses) <= {204, 404, 412}
    record = call.reads("GET scalable/NS/a")
    assert record["epoch"] == statuses.count(204)
    active = [each["hashRange"] for each in record["segments"].values() if each["active"]]
    following = 0
    for span in sorted(active, key=lambda each: each["start"]):
        assert span["start"] == following
        following = span["end"] + 1
    assert following == 65536


def test_a_topic_deleted_during_splits_is_gone(
    call: Caller, magnetar_broker: MagnetarBroker
) -> None:
    call.accepts("PUT scalable/NS/a?numInitialSegments=8")
    statuses: list[int] = []

    def split() -> None:
        other = Caller(magnetar_broker, call.namespace)
        for number in range(8):
            statuses.append(other(f"POST scalable/NS/a/split/{number}").status)
        other.close()

    admin = threading.Thread(target=split)
    admin.start()
    call.accepts("DELETE scalable/NS/a?force=true")
    admin.join()
    assert set(statuses) <= {204, 404, 409}
    assert call.reads("GET scalable/NS") == []
    call.accepts("PUT scalable/NS/a")
    assert call.reads("GET scalable/NS/a")["epoch"] == 0


def test_classic_clients_are_told_that_the_name_is_not_theirs(
    call: Caller, magnetar_broker: MagnetarBroker
) -> None:
    call.accepts("PUT scalable/NS/a")
    client = connect(magnetar_broker)
    try:
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(f"persistent://{call.namespace}/a")
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(f"topic://{call.namespace}/a")
    finally:
        client.close()
    assert call.reads("GET persistent/NS") == []
