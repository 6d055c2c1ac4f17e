"""Dashboards and alert rules ask for series and labels that a broker and the SDK really serve."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar import Admin, PrometheusTelemetry, PulsarClient
from magnetar.testing.broker import MagnetarBroker

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
ORDERS = "topic://public/default/orders"
SELECTOR = re.compile(r"\b((?:pulsar|magnetar|process|jvm)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GIVEN_BY_PROMETHEUS = {"instance", "job"}


@pytest.fixture(scope="module")
def scraped() -> str:
    """What a broker in use answers, and after it what its client counts."""
    telemetry = PrometheusTelemetry()
    with (
        MagnetarBroker() as broker,
        Admin(broker.admin_url) as admin,
        PulsarClient(broker.service_url, telemetry=telemetry) as client,
    ):
        admin.scalable_topics.create(ORDERS, segments=2)
        with (
            client.stream_consumer(ORDERS, subscription="s") as consumer,
            client.producer(ORDERS) as producer,
        ):
            producer.send(b"x", key="k")
            message = consumer.receive(timeout=20)
            assert message is not None
            consumer.acknowledge_cumulative(message)
            with urllib.request.urlopen(f"{broker.admin_url}/metrics") as answer:
                text: str = answer.read().decode()
            return text + telemetry.render()


def test_the_text_is_what_prometheus_reads(scraped: str) -> None:
    families = list(text_string_to_metric_families(scraped))
    assert len(families) > 60
    assert all(family.documentation for family in families)


def labels_of(scraped: str) -> dict[str, set[str]]:
    """By the names that stand in the text: the parser gives counters others."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(\{.*\})? \S+$", scraped, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=\"", labels))
    return found


def queries() -> Iterator[tuple[str, str, str]]:
    """Where it stands, the query, and the legend that is made of its labels."""
    for path in BOARDS:
        board = json.loads(path.read_text())
        for variable in board["templating"]["list"][1:]:
            yield f"{path.name} {variable['name']}", variable["query"]["query"], ""
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.name} {panel['title']}", target["expr"], target["legendFormat"]
    for number, line in enumerate(ALERTS.read_text().splitlines(), 1):
        if line.strip().startswith("expr:"):
            yield f"alerts.yml:{number}", line.partition("expr:")[2], ""


def test_every_series_and_label_that_is_asked_for_is_served(scraped: str) -> None:
    served = labels_of(scraped)
    asked = list(queries())
    assert len(asked) > 50
    for place, query, legend in asked:
        selectors = SELECTOR.findall(query)
        assert selectors or "up{" in query, place
        for name, labels in selectors:
            assert name in served, f"{place}: no series {name}"
            unknown = set(LABEL.findall(labels)) - served[name]
            assert not unknown, f"{place}: {name} has no label {unknown}"
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend)) - GIVEN_BY_PROMETHEUS
        if selectors and "sum by" not in query:
            assert shown <= served[selectors[0][0]], place


def test_promtool_accepts_rules_and_metrics(scraped: str) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool comes with Debian's prometheus; CI installs it")
    rules = subprocess.run([tool, "check", "rules", str(ALERTS)], capture_output=True, text=True)
    assert rules.returncode == 0, rules.stderr
    metrics = subprocess.run(
        [tool, "check", "metrics"], input=scraped, capture_output=True, text=True
    )
    errors = [line for line in metrics.stderr.splitlines() if "error" in line.lower()]
    assert not errors, errors
