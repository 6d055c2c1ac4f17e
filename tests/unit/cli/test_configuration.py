from __future__ import annotations

import json

import pytest

from magnetar.cli.main import EXIT_USAGE, main
from magnetar.runtime.key import Use, load_keys


def test_the_keys_that_act_are_listed_and_every_key_says_what_it_does_or_why_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["configuration", "--acting", "-o", "json"]) == 0
    listed = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    acting = {key.name for key in load_keys().values() if key.use is Use.ACTING}
    assert set(listed) == acting
    assert all(row["meaning"] for row in listed.values())
    assert main(["configuration", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(load_keys())
    assert all(row["meaning"] for row in rows)


def test_one_key_is_shown_and_a_misspelled_one_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["configuration", "maxMessageSize"]) == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert (shown["use"], shown["default"]) == ("acts", "5242880")
    assert main(["configuration", "zookeeperServers"]) == 0
    shown = dict(
        line.split(None, 1) for line in capsys.readouterr().out.splitlines() if " " in line
    )
    assert shown["use"] == "without effect"
    assert shown["meaning"].startswith("Set metadataStoreUrl")
    assert main(["configuration", "scalableTopicSplitCooldown"]) == 0
    assert "scalableTopicSplitCooldownSeconds" in capsys.readouterr().out
    assert main(["configuration", "maxMesageSize"]) == EXIT_USAGE
    assert "did you mean maxMessageSize?" in capsys.readouterr().err
