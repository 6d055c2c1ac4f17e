"""Write the Grafana dashboards (deploy/grafana) and the list of metrics (docs/metrics.md).

python tools/generate_dashboard.py           write them
python tools/generate_dashboard.py --check   fail where they are not what would be written

`tests/tidy/test_dashboard.py` holds the names and labels of every query to what a broker serves.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from output import ROOT, finish

from magnetar import PrometheusTelemetry
from magnetar.broker.metric_meaning import MEANINGS

WIDTH = 24
PANEL_WIDTH, PANEL_HEIGHT = 8, 7
SOURCE = {"type": "prometheus", "uid": "${source}"}


TITLES = {
    "broker": "Magnetar broker",
    "topic": "Magnetar topic",
    "scalable-topic": "Magnetar scalable topic",
    "cluster": "Magnetar cluster",
    "sdk": "Magnetar SDK",
}
CHOSEN = {
    "{CLUSTER}": '{cluster="$cluster"}',
    "{BROKER}": '{cluster="$cluster", broker=~"$broker"}',
    "{TOPIC}": '{cluster="$cluster", namespace=~"$namespace", topic=~"$topic"}',
}


class Query(NamedTuple):
    """A row of dashboard.tsv. A panel that is called `$` is a variable, named by its legend."""

    board: str
    panel: str
    unit: str
    legend: str
    text: str


def load_queries() -> list[Query]:
    rows = []
    for line in (Path(__file__).parent / "dashboard.tsv").read_text().splitlines()[1:]:
        *cells, text = line.split("\t")
        for word, chosen in CHOSEN.items():
            text = text.replace(word, chosen)
        rows.append(Query(*cells, text))
    return rows


def format_board(name: str, queries: Sequence[Query]) -> str:
    panels: dict[str, list[Query]] = {}
    for each in queries:
        if each.panel != "$":
            panels.setdefault(each.panel, []).append(each)
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
        *(_variable(each.legend, each.text) for each in queries if each.panel == "$"),
    ]
    value = {
        "uid": f"magnetar-{name}",
        "title": TITLES[name],
        "tags": ["magnetar"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": [_panel(number, each) for number, each in enumerate(panels.values())],
    }
    return json.dumps(value, indent=1) + "\n"


def _variable(name: str, query: str) -> dict[str, Any]:
    is_many = name != "cluster"
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": is_many,
        "includeAll": is_many,
    }


def _panel(number: int, queries: Sequence[Query]) -> dict[str, Any]:
    row, column = divmod(number * PANEL_WIDTH, WIDTH)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": queries[0].panel,
        "datasource": SOURCE,
        "gridPos": {"x": column, "y": row * PANEL_HEIGHT, "w": PANEL_WIDTH, "h": PANEL_HEIGHT},
        "fieldConfig": {"defaults": {"unit": queries[0].unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": each.text,
                "legendFormat": each.legend,
                "datasource": SOURCE,
            }
            for index, each in enumerate(queries)
        ],
    }


HEAD = """\
# Metrics

`/metrics` of the admin port is Prometheus text: each series comes with its type and the sentence
below. Names are Pulsar's where Pulsar has the number, so that its dashboards work; `magnetar_` are
our own. The first word of a sentence is the unit; what ends in `_total` only grows.

`deploy/grafana` has dashboards for a broker, a topic, a scalable topic, a cluster and the SDK;
`deploy/prometheus/alerts.yml` has alert rules, each with what to do. A test holds both to what a
broker serves, and `promtool` checks the rules.

Scrape a broker:

```yaml
scrape_configs:
  - job_name: magnetar
    static_configs:
      - targets: ["localhost:8080"]
rule_files: [deploy/prometheus/alerts.yml]
```

"""
COLUMNS = "| metric | meaning |\n| --- | --- |\n"
OF_SDK = """
## Of the SDK

`PulsarClient(..., telemetry=PrometheusTelemetry())` counts in your own process ([SDK](sdk.md)):

"""
OWN = {
    "magnetar_event_loop_held_seconds": "Seconds that the event loop was late",
    "magnetar_event_loop_held_longest_seconds": "Seconds that the event loop was late at most",
}


def format_page() -> str:
    of_sdk = re.findall(r"^# HELP (\S+) (.+)$", PrometheusTelemetry().render(), re.MULTILINE)
    broker = _format_rows({**MEANINGS, **OWN})
    return f"{HEAD}{COLUMNS}{broker}{OF_SDK}{COLUMNS}{_format_rows(dict(of_sdk))}"


def _format_rows(meanings: Mapping[str, str]) -> str:
    return "".join(f"| `{name}` | {meaning} |\n" for name, meaning in sorted(meanings.items()))


if __name__ == "__main__":
    folder = ROOT / "deploy" / "grafana"
    queries = load_queries()
    made = {
        folder / f"{name}.json": format_board(
            name, [each for each in queries if each.board == name]
        )
        for name in TITLES
    }
    finish({**made, ROOT / "docs" / "metrics.md": format_page()})
