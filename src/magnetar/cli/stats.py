"""`magnetar admin broker-stats`."""

from __future__ import annotations

from typing import Final

from magnetar.cli.command import Switch, Verb

_INDENT: Final = Switch(("-i", "--indent"), "accepted; JSON is always indented")

VERBS: Final = (
    Verb(
        "topics",
        "stats of every loaded topic",
        (_INDENT,),
        lambda a, o: a.brokers.topic_stats(),
    ),
    Verb("monitoring-metrics", "metrics", (_INDENT,), lambda a, o: a.brokers.metrics()),
    Verb("load-report", "load of the broker", (), lambda a, o: a.brokers.load_report()),
)
