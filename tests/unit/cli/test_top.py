"""What `magnetar top` makes of two looks at a broker."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.cli.quantity import format_bytes, format_rate, format_span
from magnetar.cli.top import format_look

ROW: dict[str, Any] = {
    "name": "topic://acme/shop/orders",
    "kind": "scalable",
    "parts": 3,
    "msgRateIn": 12_345.6,
    "msgRateOut": 0.5,
    "bytesRateIn": 2e6,
    "bytesRateOut": 0.0,
    "storageSize": 1_200_000_000,
    "producers": 2,
    "consumers": 1,
    "lag": 4200,
    "isLagExact": False,
}


def overview(at_ms: int, cpu_s: float, **more: Any) -> dict[str, Any]:
    broker = {
        "atMs": at_ms,
        "connections": 8,
        "residentBytes": 64_000_000,
        "cpuSeconds": cpu_s,
        "loopLooks": at_ms // 10,
        "loopHeldSeconds": at_ms / 1e5,
        "trouble": "",
    }
    return {
        "atMs": at_ms,
        "startedMs": 0,
        "cluster": "standalone",
        "brokerId": "localhost:8080",
        "version": "0.1.0",
        "topics": ROW,
        "brokers": {"localhost:8080": broker | more},
    }


def test_counters_are_shown_as_rates_from_the_second_look_on() -> None:
    found = {"overview": overview(12_000, 2.0), "topics": {"total": 1, "rows": [ROW]}}
    assert "cpu" not in format_look(found, None)
    shown = format_look(found, overview(10_000, 1.0))
    assert "cpu 50 %   loop held 0.1 ms" in shown
    assert "in 12,346 messages/s (1.9 MiB/s)   out 0.5 messages/s" in shown


def test_several_brokers_are_summed_and_a_silent_one_is_named() -> None:
    earlier, now = overview(10_000, 1.0), overview(12_000, 2.0)
    for told in (earlier, now):
        told["brokers"]["localhost:8081"] = told["brokers"]["localhost:8080"] | {"trouble": "full"}
    now["silentBrokers"] = ["localhost:8082"]
    shown = format_look({"overview": now, "topics": {"total": 0, "rows": []}}, earlier)
    assert "broker localhost:8080 and 1 more" in shown
    assert "connections 16   memory 122 MiB   cpu 100 %   loop held 0.1 ms" in shown
    assert "TROUBLE: full (localhost:8081)" in shown
    assert "TROUBLE: localhost:8082 does not answer" in shown


def test_rows_that_do_not_fit_are_counted_and_an_estimate_is_marked() -> None:
    found = {"overview": overview(12_000, 2.0), "topics": {"total": 40, "rows": [ROW]}}
    shown = format_look(found, None)
    assert "~4,200" in shown and "39 more topics" in shown


def test_trouble_is_shown_and_a_caller_without_rights_sees_topics_alone() -> None:
    told = overview(12_000, 2.0, trouble="disk full")
    found = {"overview": told, "topics": {"total": 0, "rows": []}}
    assert "TROUBLE: disk full" in format_look(found, None)
    del told["brokers"]
    assert "memory" not in format_look(found, None)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_bytes(999), "999 B"),
        (format_bytes(1536), "1.5 KiB"),
        (format_bytes(250 << 30), "250 GiB"),
        (format_rate(0), "0"),
        (format_rate(0.25), "0.2"),
        (format_rate(1234.5), "1,234"),
        (format_span(5), "5s"),
        (format_span(93_784), "1d 2h"),
    ],
)
def test_numbers_are_short(shown: str, expected: str) -> None:
    assert shown == expected
