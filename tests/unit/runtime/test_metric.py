from __future__ import annotations

import math

import pytest

from magnetar.runtime.metric import (
    Histogram,
    MetricKind,
    MetricText,
    format_labels,
    format_number,
)


def test_samples_of_one_name_stand_together_under_one_type_line() -> None:
    text = MetricText()
    for topic in ("a", "b"):
        labels = format_labels({"topic": topic})
        text.add("rate_in", labels, 1.5)
        text.add("in_total", labels, 3, kind=MetricKind.COUNTER)
    assert text.render() == (
        "# TYPE rate_in gauge\n"
        'rate_in{topic="a"} 1.5\n'
        'rate_in{topic="b"} 1.5\n'
        "# TYPE in_total counter\n"
        'in_total{topic="a"} 3\n'
        'in_total{topic="b"} 3\n'
    )


def test_nothing_is_an_empty_text() -> None:
    assert MetricText().render() == ""


def test_labels_and_help_are_escaped() -> None:
    assert format_labels({"a": 'x"y\\z\n'}) == '{a="x\\"y\\\\z\\n"}'
    assert format_labels({}) == ""
    text = MetricText()
    text.declare("m", MetricKind.GAUGE, "two\nlines")
    assert text.render() == "# HELP m two\\nlines\n# TYPE m gauge\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.5, "0.5"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert format_number(value) == text


def test_a_histogram_counts_up_to_and_with_each_bound() -> None:
    histogram = Histogram("size", "sizes", [1, 10])
    histogram.observe(1)
    histogram.observe(2, count=3)
    histogram.observe(11)
    text = MetricText()
    histogram.write(text, {"x": "y"})
    assert text.render() == (
        "# HELP size sizes\n"
        "# TYPE size histogram\n"
        'size_bucket{x="y",le="1"} 1\n'
        'size_bucket{x="y",le="10"} 4\n'
        'size_bucket{x="y",le="+Inf"} 5\n'
        'size_sum{x="y"} 18.0\n'
        'size_count{x="y"} 5\n'
    )
