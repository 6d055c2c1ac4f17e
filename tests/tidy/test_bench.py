"""What the benches decide from figures: ratios, who runs what, and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.peers.row import OURS, PEERS, ROWS, SYNCED_MAX, Row
from bench.report import draw, merge, name_limit, write_page
from bench.run import ROWS as RUN_ROWS
from bench.run import summarise

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


def run_side(value: float, **costs: float) -> dict[str, Any]:
    return {"value": value, "load1": 1.4, "runs": [{}, {}, {}], **costs}


def run_document() -> dict[str, Any]:
    ours = run_side(200.0, broker_us=5.0, broker_cores=0.5, client_us=9.0, client_cores=0.99)
    rows = {
        "java-produce-batched": {
            "figure": "rate_per_s",
            "ours": ours,
            "theirs": run_side(100.0, broker_us=7.0, broker_cores=1.5),
        },
        "sync-send": {"figure": "p50_ms", "ours": run_side(2.0), "theirs": run_side(1.0)},
        "end-to-end": {
            "figure": "p99_ms",
            "ours": run_side(2.0),
            "theirs": {"error": "x", "runs": [{}]},
        },
    }
    settings = {"ours": "syncs", "theirs": "does not"}
    machine = {"cores": 2, "processor": "p", "memory_gib": 1, "system": "s", "python": "3"}
    head = {"bench": "run", "when": "2026-01-02T03:04", "load1": 1.0, "machine": machine}
    return {**head, "settings": settings, "rows": rows}


def test_a_run_beside_apache_pulsar_is_shown_with_what_its_brokers_and_clients_took() -> None:
    page = write_page(merge([run_document()]))
    assert "## Beside Apache Pulsar, one process" in page and "medians of 1 to 3" in page
    assert "2026-01-02 03:04, load 1: `java-produce-batched`, `sync-send`" in page
    assert "| Magnetar | syncs |" in page and "| Apache Pulsar | does not |" in page
    [batched] = [line for line in page.splitlines() if line.startswith("| java-produce-batched")]
    assert batched.split(" | ")[1:] == [
        *("200/s", "100/s", "2.00"),
        *("5.00 µs × 0.50", "7.00 µs × 1.50", "9.00 µs × 0.99", "–", "1 |"),
    ]
    [late] = [line for line in page.splitlines() if line.startswith("| sync-send")]
    assert late.split(" | ")[1:4] == ["2.00 ms", "1.00 ms", "**0.50**"]
    [failed] = [line for line in page.splitlines() if line.startswith("| end-to-end")]
    assert failed.split(" | ")[1:4] == ["2.00 ms", "failed", "–"]


def test_rows_of_a_later_run_replace_those_of_an_earlier_one() -> None:
    first, later = run_document(), run_document()
    later["when"], later["rows"] = "2027", {"sync-send": later["rows"]["sync-send"]}
    rows = merge([later, first])["run"]["rows"]
    assert {row["when"] for row in rows.values()} == {"2026-01-02T03:04", "2027"}
    assert rows["sync-send"]["when"] == "2027" and len(rows) == 3


def test_the_median_of_runs_keeps_their_highest_load_and_what_all_of_them_measured() -> None:
    row = next(row for row in RUN_ROWS if row.figure == "rate_per_s")
    costs = {"broker_us": 1.0, "broker_cores": 0.5, "client_us": 2.0}
    runs = [{"rate_per_s": 10 * number, "load1": number, **costs} for number in (1, 2, 3)]
    del runs[0]["client_us"]
    summary = summarise(row, runs)
    assert summary["value"] == 20 and summary["load1"] == 3 and summary["broker_us"] == 1.0
    assert "client_us" not in summary


def test_sizes_that_are_not_n_2n_and_4n_are_named() -> None:
    figures = {"seconds": 1.0, "cpu_us_each": 1.0, "kib_each": 1.0}
    cases = {
        name: {"sizes": dict.fromkeys(sizes, figures), "share": 1.0, "load1": 1.0}
        for name, sizes in (("topics", ("1", "2", "4")), ("holes", ("1", "2", "4", "90")))
    }
    page = write_page(merge([{"bench": "growth", "when": "2026", "cases": cases}]))
    assert "at n, 2n and 4n; for holes see the sizes in the table." in " ".join(page.split())


def test_the_page_and_its_pictures_are_what_the_kept_results_say() -> None:
    benches = merge([json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))])
    assert (ROOT / "docs" / "performance.md").read_text() == write_page(benches)
    for name, picture in draw(benches).items():
        assert (ROOT / "docs" / name).read_text() == picture
