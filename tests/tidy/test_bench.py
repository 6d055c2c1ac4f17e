"""What the benches decide from figures: ratios, who runs what, and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.peers.row import OURS, PEERS, ROWS, SYNCED_MAX, Row
from bench.report import draw, merge, name_limit, write_page

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results"
LIMITS = {
    "sync": {"syncs_per_s": 1_000, "p50_ms": 1.0, "p99_ms": 2.0},
    "write": {"mib_per_s": 100},
    "loopback": {"mib_per_s": 1_000},
}


def by_name(name: str) -> Row:
    [row] = [row for row in ROWS if row.name == name]
    return row


@pytest.mark.parametrize("peer", PEERS)
def test_every_row_of_the_peers_has_every_contender(peer: str) -> None:
    assert all(peer in {run.contender for run in row.runs(1.0)} for row in ROWS)
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_a_ratio_above_one_is_in_our_favour_whatever_the_figure() -> None:
    assert by_name("produce-100").ratio(200.0, 100.0) == 2.0
    assert by_name("request-100-p50").ratio(1.0, 2.0) == 2.0


def test_rows_that_need_the_same_run_share_it() -> None:
    fast, slow = by_name("request-100-p50"), by_name("request-100-p99")
    assert list(fast.runs(1.0)) == list(slow.runs(1.0))


def test_who_syncs_each_message_alone_gets_fewer_of_them() -> None:
    counts = {run.contender: run.count for run in by_name("produce-100").runs(1.0)}
    assert counts["nats-sync"] == SYNCED_MAX < counts["nats"] < counts["kafka-sync"]
    assert counts["kafka-sync"] == counts["kafka"] == counts[OURS]


def test_the_limit_of_a_row_is_the_one_that_is_used_most() -> None:
    row = by_name("produce-1k")
    quick: dict[str, Any] = {OURS: {"value": 51_200, "client_cpu_us": 1.0}, "limits": LIMITS}
    assert name_limit(row, quick) == ("bytes to the disk", "50 %")
    busy = {OURS: {"value": 51_200, "client_cpu_us": 15.0}, "limits": LIMITS}
    assert name_limit(row, busy) == ("client: 15.00 µs a message", "77 %")
    late = {OURS: {"value": 2.0}, "limits": LIMITS}
    assert name_limit(by_name("request-1k-p50"), late)[1] == "50 %"


def test_what_was_measured_last_replaces_single_rows_and_keeps_its_own_limits() -> None:
    first = {"bench": "peers", "when": "a", "limits": 1, "rows": {"x": {"is": 1}, "y": {"is": 1}}}
    later = {"bench": "peers", "when": "b", "limits": 2, "rows": {"y": {"is": 2}}}
    rows = {"x": {"is": 1, "when": "a", "limits": 1}, "y": {"is": 2, "when": "b", "limits": 2}}
    assert merge([later, first])["peers"] == {**later, "rows": rows}


def test_the_page_and_its_pictures_are_what_the_kept_results_say() -> None:
    benches = merge([json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))])
    assert (ROOT / "docs" / "performance.md").read_text() == write_page(benches)
    for name, picture in draw(benches).items():
        assert (ROOT / "docs" / name).read_text() == picture
