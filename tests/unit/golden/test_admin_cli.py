"""Every verb of `magnetar admin` prints what is recorded."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

import pytest

from tests.unit.golden.cli_script import command_lines, help_lines
from tests.unit.golden.cli_transcript import cli_transcript, run_command
from tests.unit.golden.clients import SETTINGS, attach_clients
from tests.unit.golden.record import compare

pytestmark = pytest.mark.timeout(600)  # thousands of calls in one test


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As wide, in the same time zone and with the same defaults everywhere."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def verbs() -> set[tuple[str, str]]:
    """Group and verb, by each of its names."""
    from magnetar.cli.admin import group_names, load_verbs

    return {
        (group, name)
        for group in group_names()
        for verb in load_verbs(group)
        for name in (verb.name, *verb.aliases)
    }


def test_no_verb_is_left_out() -> None:
    assert not verbs() - {(words[0], words[1]) for words in help_lines()}


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse lays options out otherwise")
def test_every_help_is_the_recorded_one() -> None:
    texts = [run_command(words, words) for words in help_lines()]
    first = next(text for text in texts if "\n< 0\n" in text)
    # The options of every verb are written out once.
    common = first[first.index("\ncommon options:\n") :]
    shortened = [text if text == first else text.replace(common, "\n…\n") for text in texts]
    compare("cli-help.txt", shortened)


def test_every_output_is_the_recorded_one() -> None:
    compare("cli.txt", asyncio.run(cli_transcript(command_lines())))


def test_every_output_about_topics_in_use_is_the_recorded_one() -> None:
    lines = command_lines("cli-busy")
    compare("cli-busy.txt", asyncio.run(cli_transcript(lines, attach_clients, **SETTINGS)))
