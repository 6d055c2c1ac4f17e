"""Where settings are written: property files in Pulsar's form, TOML files, KEY=VALUE words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from magnetar.errors import InvalidConfiguration
from magnetar.runtime.key import Value, format_value

_LINE: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

Check: TypeAlias = Callable[[str, str], object]


def load_settings(path: Path, check: Check = lambda key, value: None) -> dict[str, str]:
    """Read a file: TOML when its name ends so, else properties.

    Refusals, those of `check` for a key and its value among them, begin with the name of the file
    and, where it is known, the number of the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfiguration(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidConfiguration(f"{path}: byte {error.start} is not UTF-8") from None
    try:
        if path.suffix != ".toml":
            return _load_properties(path, text, check)
        settings = parse_toml(text)
        for key, value in settings.items():
            check(key, value)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error.sentence}") from None
    return settings


def _load_properties(path: Path, text: str, check: Check) -> dict[str, str]:
    settings: dict[str, str] = {}
    for number, key, value in _properties(text):
        try:
            check(key, value)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"line {number}: {error.sentence}") from None
        settings[key] = value
    return settings


def parse_properties(text: str) -> dict[str, str]:
    """Read `key=value` lines; `#` and `!` begin comments, a backslash at the end continues.

    A later line wins over an earlier one of the same key, as in Java.
    """
    return {key: value for _, key, value in _properties(text)}


def _properties(text: str) -> Iterator[tuple[int, str, str]]:
    """The number of the line on which each begins, key and value."""
    for number, line in _logical_lines(text):
        found = _LINE.fullmatch(line)
        assert found is not None
        key, value = found.groups()
        yield number, _unescape(key), _unescape(value).strip()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    held, begun = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        if not held:
            begun = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
            continue
        yield begun, held + line
        held = ""
    if held:
        yield begun, held


def _unescape(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        escaped = found.group(1)
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROL.get(escaped, escaped)

    return _ESCAPE.sub(replaced, text)


def parse_toml(text: str) -> dict[str, str]:
    """Read keys at the top or inside tables; tables only group, so a key stands in one place."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfiguration(f"not valid TOML: {error}") from None
    settings: dict[str, str] = {}
    for key, value in _leaves(document):
        if key in settings:
            raise InvalidConfiguration(f"{key} is set in two tables")
        settings[key] = format_setting(key, value)
    return settings


def _leaves(table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield key, value


def format_setting(key: str, value: object) -> str:
    """The text of a value that came typed, from TOML or from a program."""
    if isinstance(value, list | tuple | set | frozenset):
        parts = sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value)
        return ",".join(parts)
    if value is None or isinstance(value, bool | int | float | str):
        plain: Value = value
        return format_value(plain)
    raise InvalidConfiguration(f"{key}: a {type(value).__name__} cannot be a value")


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE words of the command line; the last one of a key wins."""
    settings: dict[str, str] = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise InvalidConfiguration(f"{override!r} is not KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings
