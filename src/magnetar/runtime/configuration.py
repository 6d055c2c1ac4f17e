"""A broker's configuration: Pulsar's key names as attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from magnetar.errors import InvalidConfiguration, PreconditionFailed
from magnetar.runtime.acting_key import ActingKeys
from magnetar.runtime.key import Key, Use, Value, find_key, format_value, load_keys
from magnetar.runtime.setting import format_setting, load_settings, parse_overrides
from magnetar.runtime.spelling import canonical_name, canonical_text

Listener: TypeAlias = Callable[[], None]


class Configuration(ActingKeys):
    """Every key has a value; those that act have a typed attribute.

    Values change in one way only after construction: `update_dynamic` and `reset_dynamic`, for
    the keys Pulsar calls dynamic. An owner that copied such a value is notified through `listen`.
    """

    _set: dict[str, Value]
    _standalone: bool
    _listeners: dict[str, list[Listener]]

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, standalone: bool = False
    ) -> None:
        """`settings` are values by key, as text or typed.

        Raise InvalidConfiguration for an unknown key, an unreadable value or an unsafe one.
        """
        self.__dict__["_set"] = _parse_settings(settings or {})
        self.__dict__["_standalone"] = standalone
        self.__dict__["_listeners"] = {}
        for key in load_keys().values():
            self.__dict__[key.name] = self._start_value(key.name)

    @classmethod
    def load(
        cls, path: Path | None, overrides: Sequence[str] = (), *, standalone: bool = False
    ) -> Configuration:
        """Read a file, if there is one, then KEY=VALUE overrides."""
        settings = load_settings(path, _check_setting) if path is not None else {}
        return cls(settings | parse_overrides(overrides), standalone=standalone)

    def replace(self, **settings: Value) -> Configuration:
        """The same with other values, as if they had been set from the beginning."""
        return Configuration({**self._set, **settings}, standalone=self._standalone)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a configuration changes through update_dynamic only")

    def get(self, name: str) -> Value:
        """The present value of any key."""
        find_key(name)
        value: Value = self.__dict__.get(name, self._set.get(name, ""))
        return value

    @property
    def settings(self) -> Mapping[str, Value]:
        """What the user set, whatever it does."""
        return MappingProxyType(self._set)

    def format_values(self) -> dict[str, str]:
        """Every key with its present value as text; secrets are masked."""
        return {
            key.name: "********"
            if key.secret and self.get(key.name)
            else format_value(self.get(key.name))
            for key in load_keys().values()
        }

    def inert_settings(self) -> dict[str, str]:
        """The keys without effect that the user set to another value than the default, sorted, each
        with the reason.
        """
        inert = (key for key in map(find_key, sorted(self._set)) if key.use is Use.INERT)
        return {key.name: key.meaning for key in inert if self._set[key.name] != self._default(key)}

    def update_dynamic(self, name: str, text: str) -> None:
        """Change a value at run time and tell its listeners.

        Raise PreconditionFailed for a key that cannot change and for an invalid value.
        """
        name = _check_dynamic(name)
        try:
            value = _parse_setting(name, text)
        except InvalidConfiguration as error:
            raise PreconditionFailed(error.sentence) from None
        self._change(name, value)

    def reset_dynamic(self, name: str) -> None:
        """Go back to the value the broker started with."""
        name = _check_dynamic(name)
        self._change(name, self._start_value(name))

    def listen(self, names: Sequence[str], listener: Listener) -> Listener:
        """Call `listener` after a change of any of these keys; the answer takes it away again."""
        listeners = self._listeners
        for name in names:
            assert load_keys()[name].dynamic, f"{name} never changes"
            listeners.setdefault(name, []).append(listener)

        def remove() -> None:
            for name in names:
                listeners[name].remove(listener)

        return remove

    def _change(self, name: str, value: Value) -> None:
        if self.__dict__[name] == value:
            return
        self.__dict__[name] = value
        for listener in tuple(self._listeners.get(name, ())):
            listener()

    def _start_value(self, name: str) -> Value:
        return self._set[name] if name in self._set else self._default(find_key(name))

    def _default(self, key: Key) -> Value:
        return key.standalone_default if self._standalone else key.default


def _parse_settings(settings: Mapping[str, object]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for written, value in settings.items():
        name = canonical_name(written)
        if name in values:
            raise InvalidConfiguration(f"{name} is set twice, in two spellings")
        values[name] = _parse_setting(name, format_setting(written, value))
    return values


def _check_dynamic(written: str) -> str:
    name = canonical_name(written)
    key = load_keys().get(name)
    if key is None or not key.dynamic:
        raise PreconditionFailed(
            f"{written} is not a configuration key that can change at run time"
        )
    return name


def _check_setting(written: str, text: str) -> None:
    _parse_setting(canonical_name(written), text)


def _parse_setting(name: str, text: str) -> Value:
    key = find_key(name)
    value = key.parse(canonical_text(name, text))
    if key.use is Use.REFUSED and value != key.default:
        raise InvalidConfiguration(f"{name}={format_value(value)} is refused: {key.meaning}")
    return value


def dynamic_names() -> tuple[str, ...]:
    """The keys that can change at run time, sorted."""
    return tuple(sorted(key.name for key in load_keys().values() if key.dynamic))
