"""The pages of errors and of log events are written from the code, and name all of them."""

from __future__ import annotations

from tools import generate_errors, generate_events


def test_the_page_of_errors_is_written_from_the_table() -> None:
    text = generate_errors.PAGE.read_text()
    assert text == generate_errors.write_page(), "run `python tools/generate_errors.py`"


def test_every_refusal_says_what_to_do() -> None:
    for name, (when, todo) in generate_errors.read_advice().items():
        assert when.endswith(".") and todo.endswith("."), name


def test_the_page_of_events_is_written_from_the_calls() -> None:
    text = generate_events.PAGE.read_text()
    assert text == generate_events.write_page(), "run `python tools/generate_events.py`"
