"""What a terminal gets, and what a pipe gets."""

from __future__ import annotations

import io
from itertools import count

import pytest

from magnetar.cli.progress import Progress, format_bar
from magnetar.cli.screen import RED, draw, follow, paint
from magnetar.errors import TopicNotFound

T0 = 1_700_000_000_000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def watch(stream: io.StringIO, looks: int, answers: list[object]) -> str:
    left = iter(range(looks - 1))
    given = iter(answers)

    def look() -> str:
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    follow(look, stream, title="x", now_ms=lambda: T0, pause=lambda: next(left, None) is not None)
    return stream.getvalue()


def test_only_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paint("no", RED, io.StringIO()) == "no"
    assert paint("no", RED, Terminal()) == "\x1b[31mno\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("no", RED, Terminal()) == "no"


def test_a_pipe_gets_one_look_after_the_other() -> None:
    shown = watch(io.StringIO(), 2, ["one", "two"])
    assert "\x1b" not in shown
    assert [line for line in shown.split("\n") if line and not line.startswith("x ")] == [
        "one",
        "two",
    ]


def test_a_terminal_is_drawn_over_and_never_scrolls() -> None:
    shown = watch(Terminal(), 2, ["one", "a" * 30 + "\n" + "b\n" * 9])
    assert shown.count("\x1b[H") == 2
    second = shown.rpartition("\x1b[H")[2]
    assert second.count("\n") < 5
    assert f"{'a' * 19}…" in second and "more lines" in second


def test_a_refusal_ends_the_first_look_and_is_shown_in_a_later_one() -> None:
    refusal = TopicNotFound("gone")
    with pytest.raises(TopicNotFound):
        watch(io.StringIO(), 1, [refusal])
    assert watch(io.StringIO(), 3, ["one", refusal, "three"]).count("gone") == 1


def test_a_line_that_is_cut_has_no_open_colour() -> None:
    assert draw(f"\x1b[1m{'a' * 40}\x1b[0m", is_first=False).count("\x1b[1m") == 0


def test_progress_is_shown_on_a_terminal_a_few_times_a_second_and_goes_away() -> None:
    stream, seconds = Terminal(), count(0.0, 0.05)
    with Progress("messages", 200, stream, lambda: next(seconds)) as progress:
        for _ in range(100):
            progress.add()
    lines = stream.getvalue().split("\r")
    assert 30 < len(lines) < 60
    assert "100 of 200 messages" in lines[-2] or "99 of 200 messages" in lines[-2]
    assert lines[-1] == "\x1b[K"


def test_progress_says_nothing_in_a_pipe() -> None:
    stream = io.StringIO()
    with Progress("messages", None, stream, lambda: 0.0) as progress:
        progress.add()
    assert stream.getvalue() == ""


def test_a_bar_is_full_where_there_is_nothing_to_do() -> None:
    assert format_bar(0, 0).endswith("100%")
