"""Every series of /metrics says what it is."""

from __future__ import annotations

import ast
import re

from magnetar import PrometheusTelemetry
from magnetar.broker.metric_meaning import MEANINGS
from tests.tidy.source import PACKAGE

NAME = re.compile(r"(?:pulsar|magnetar|process|jvm)_[a-zA-Z_]+[a-zA-Z]")


def test_every_series_that_is_written_has_a_meaning() -> None:
    tree = ast.parse((PACKAGE / "broker" / "exposition.py").read_text())
    written = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = {each for each in written if NAME.fullmatch(each)}
    assert len(names) > 40
    assert not names - set(MEANINGS), "give each a row in broker/metric_meaning.py"


UNITS = re.compile(
    "Aborts|Acknowledgements|Bytes|Calls|Commits|Connections|Consumers|Entries|Group commits"
    "|Load reports|Merges|Messages|Microseconds|Migrations|Milliseconds|Nanoseconds"
    "|Negative acknowledgements|Producers|Reads|Sealed segments|Seconds|Segments|Splits"
    "|Subscriptions|Syncs|Times|Topics|Transactions|1 while|Always 1"
)


def test_the_sentence_of_a_series_begins_with_its_unit() -> None:
    served = re.findall(r"^# HELP (\S+) (.+)$", PrometheusTelemetry().render(), re.MULTILINE)
    for name, meaning in [*MEANINGS.items(), *served]:
        assert UNITS.match(meaning), f"{name}: {meaning}"
