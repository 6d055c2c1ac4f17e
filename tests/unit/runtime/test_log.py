from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from magnetar.runtime.log import Logger, PacedLog, configure_logs


@pytest.fixture(autouse=True)
def keep_handlers() -> Iterator[None]:
    root = logging.getLogger("magnetar")
    before = root.handlers, root.level, root.propagate
    yield
    root.handlers, root.level, root.propagate = before


def written(*, as_json: bool = False, level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    configure_logs(level=level, as_json=as_json, stream=stream)
    return stream


LOG = Logger("magnetar.test")


def test_an_event_is_one_readable_line() -> None:
    stream = written()
    LOG.info("topic loaded", topic="persistent://a/b/c", took_ms=12, note="two words")
    time, _, rest = stream.getvalue().partition(" ")
    assert rest == 'INFO    topic loaded topic=persistent://a/b/c took_ms=12 note="two words"\n'
    assert time.endswith("Z")
    assert len(time) == len("2026-01-31T12:00:00.000Z")


def test_line_breaks_cannot_forge_a_line() -> None:
    stream = written()
    LOG.warning("bad\nname", topic="a\nINFO all is well")
    assert stream.getvalue().count("\n") == 1


def test_an_event_is_one_json_object() -> None:
    stream = written(as_json=True)
    LOG.info("topic loaded", topic="é", took_ms=12, event_id=1, level="mine")
    entry = json.loads(stream.getvalue())
    assert entry["event"] == "topic loaded"
    assert entry["level"] == "info"
    assert entry["logger"] == "magnetar.test"
    assert (entry["topic"], entry["took_ms"], entry["level_"]) == ("é", 12, "mine")


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_masked(as_json: bool) -> None:
    stream = written(as_json=as_json)
    LOG.info("connected", token="abc-1", authData="abc-2", password="abc-3", user="ann")
    assert "abc" not in stream.getvalue()
    assert "ann" in stream.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_brings_its_traceback(as_json: bool) -> None:
    stream = written(as_json=as_json)
    try:
        raise ValueError("broken")
    except ValueError as error:
        LOG.error("it failed", error=error)
    assert "Traceback" in stream.getvalue()
    assert "ValueError: broken" in stream.getvalue()


def test_levels_below_the_set_one_are_silent() -> None:
    stream = written(level="warning")
    LOG.debug("a")
    LOG.info("b")
    LOG.warning("c")
    LOG.error("d")
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["WARNING", "ERROR"]


def test_a_paced_log_counts_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(Logger("magnetar.test"), interval_s=3600)
    for number in range(5):
        paced.warning("refused", number=number)
    paced._next = 0.0  # an hour later
    paced.warning("refused", number=5)
    told = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [{"number": 0}, {"number": 5, "left_out": 4}]
