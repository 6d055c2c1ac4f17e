"""The command that shows what is kept for Spark queries, and ends it."""

from __future__ import annotations

import json

import pytest

from magnetar.cli.main import main
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker


def test_holds_are_listed_and_released(
    magnetar_broker: MagnetarBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--admin-url", magnetar_broker.admin_url]
    with AdminClient(magnetar_broker.admin_url) as admin:
        admin.namespaces.create("public/held")  # other tests leave holds in the usual one
        admin.topics.create("persistent://public/held/held")
        admin.reads.move_hold(
            "query", [{"name": "persistent://public/held/held", "position": "-1:-1"}]
        )
    assert main(["spark", "holds", "public/held", "--json", *where]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held == {"query": {"topics": ["persistent://public/held/held"], "entries": 0}}
    assert main(["spark", "holds", "public/held", *where]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["query", "1", "0"]
    assert main(["spark", "holds", "public/held", "--release", "query", *where]) == 0
    assert capsys.readouterr().out == "query is gone from 1 topic(s)\n"
    assert main(["spark", "holds", "public/held", "--release", "query", *where]) != 0
    assert "There is no hold query" in capsys.readouterr().err
