"""Who watches for changes, found by walking up from the changed path."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.metadata.path import check_directory, lineage_of
from magnetar.metadata.store import (
    Cancel,
    Change,
    ChangeListener,
    SessionEvent,
    SessionListener,
)
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class Watchers:
    """A listener that raises disturbs no other; registering and cancelling while telling is
    allowed.
    """

    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[object, ChangeListener]] = {}
        self._sessions: dict[object, SessionListener] = {}

    def add(self, prefix: str, listener: ChangeListener) -> Cancel:
        check_directory(prefix)
        key = object()
        self._by_prefix.setdefault(prefix, {})[key] = listener

        def cancel() -> None:
            listeners = self._by_prefix.get(prefix)
            if listeners is not None and listeners.pop(key, None) is not None and not listeners:
                del self._by_prefix[prefix]

        return cancel

    def add_session(self, listener: SessionListener) -> Cancel:
        key = object()
        self._sessions[key] = listener

        def cancel() -> None:
            self._sessions.pop(key, None)

        return cancel

    def tell(self, changes: Iterable[Change]) -> None:
        if not self._by_prefix:
            return
        for change in changes:
            for prefix in lineage_of(change.path):
                for listener in tuple(self._by_prefix.get(prefix, {}).values()):
                    try:
                        listener(change)
                    except Exception as error:
                        _log.error("listener failed", error=error, path=change.path)

    def tell_session(self, event: SessionEvent) -> None:
        for listener in tuple(self._sessions.values()):
            try:
                listener(event)
            except Exception as error:
                _log.error("session listener failed", error=error, session=event)

    def clear(self) -> None:
        self._by_prefix.clear()
        self._sessions.clear()
