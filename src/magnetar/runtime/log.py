"""Logs as events with fields: one readable line each, or one JSON object each.

    log = Logger(__name__)
    log.info("topic loaded", topic=name, took_ms=12)

Fields whose names speak of secrets are masked before they reach any handler.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TextIO

from magnetar.errors import shorten

_SECRET: Final = re.compile(r"(?i)password|secret|token|credential|auth_?(data|params)")
_PLAIN: Final = re.compile(r"[^\s\"=]+")
_RESERVED: Final = frozenset({"time", "level", "logger", "event", "error"})
_ROOT: Final = "magnetar"
_SHOWN: Final = 1000


class Logger:
    """A thin front to a logger of the standard library; levels and handlers are set there."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields, error=None)

    def info(self, event: str, **fields: object) -> None:
        self._log(logging.INFO, event, fields, error=None)

    def warning(self, event: str, **fields: object) -> None:
        self._log(logging.WARNING, event, fields, error=None)

    def error(self, event: str, *, error: BaseException | None = None, **fields: object) -> None:
        """With `error`, its traceback is written too."""
        self._log(logging.ERROR, event, fields, error=error)

    def _log(
        self, level: int, event: str, fields: Mapping[str, object], *, error: BaseException | None
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        shown = {
            name: "********" if _SECRET.search(name) else value for name, value in fields.items()
        }
        self._logger.log(level, "%s", event, exc_info=error, extra={"fields": shown})


class PacedLog:
    """For what strangers or a failing disk can cause as often as they like: one line a second, with
    the number of those that were left out since the last.
    """

    def __init__(
        self, log: Logger, interval_s: float = 1.0, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._log = log
        self._interval_s = interval_s
        self._now_s = now_s
        self._next = float("-inf")
        self._left_out = 0

    def warning(self, event: str, **fields: object) -> None:
        if self._is_due():
            self._log.warning(event, **fields, **self._count())

    def error(self, event: str, **fields: object) -> None:
        if self._is_due():
            self._log.error(event, error=None, **fields, **self._count())

    def _is_due(self) -> bool:
        now = self._now_s()
        if now < self._next:
            self._left_out += 1
            return False
        self._next = now + self._interval_s
        return True

    def _count(self) -> dict[str, int]:
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}


def _fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", {})
    return fields if isinstance(fields, Mapping) else {}


def _format_time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO  topic loaded topic=persistent://a/b/c took_ms=12`"""

    def format(self, record: logging.LogRecord) -> str:
        parts = [_format_time(record), f"{record.levelname:<7}", _on_one_line(record.getMessage())]
        parts += [f"{name}={_format_field(value)}" for name, value in _fields_of(record).items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _on_one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _format_field(value: object) -> str:
    text = shorten(str(value), _SHOWN)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, event, the fields, the error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in _fields_of(record).items():
            shown = shorten(value, _SHOWN) if isinstance(value, str) else value
            entry[f"{name}_" if name in _RESERVED else name] = shown
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=_format_other)


def _format_other(value: object) -> str:
    return shorten(str(value), _SHOWN)


class _Adding(logging.Filter):
    """Gives every record some more fields."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        super().__init__()
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        record.fields = {**_fields_of(record), **self._fields}
        return True


def configure_logs(
    *,
    level: str = "INFO",
    as_json: bool = False,
    stream: TextIO | None = None,
    fields: Mapping[str, object] | None = None,
) -> None:
    """Send the logs of this project to `stream`, or stderr, each line with these fields too. A
    second call replaces the first.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    if fields:
        handler.addFilter(_Adding(fields))
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    root = logging.getLogger(_ROOT)
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
