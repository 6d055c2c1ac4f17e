from __future__ import annotations

import json

import pytest

from magnetar.cli.main import EXIT_USAGE, main
from magnetar.runtime.key import Use, load_keys


def test_the_keys_that_act_are_listed_with_what_they_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["configuration", "--acting", "-o", "json"]) == 0
    listed = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    acting = {key.name for key in load_keys().values() if key.use is Use.HONOURED}
    assert set(listed) == acting
    assert all(row["meaning"] for row in listed.values())
    assert main(["configuration", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(load_keys())


def test_one_key_is_shown_and_a_misspelled_one_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["configuration", "maxMessageSize"]) == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert (shown["use"], shown["default"]) == ("acts", "5242880")
    assert main(["configuration", "scalableTopicSplitCooldown"]) == 0
    assert "scalableTopicSplitCooldownSeconds" in capsys.readouterr().out
    assert main(["configuration", "maxMesageSize"]) == EXIT_USAGE
    assert "did you mean maxMessageSize?" in capsys.readouterr().err
