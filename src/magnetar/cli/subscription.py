"""What `magnetar admin subscriptions` does beside a single call."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from magnetar.cli.command import Options, UsageError, choose_enabled
from magnetar.cli.derive import Own, peek
from magnetar.runtime.clock import SystemClock


def _reset(admin: Any, options: Options) -> None:
    name = options.subscription
    if options.messageId is not None:
        admin.subscriptions.reset_to_id(
            options.topic, name, options.messageId, excluded=options.exclude_reset_position
        )
    elif options.time is not None:
        timestamp_ms = SystemClock().now_ms() - options.time
        admin.subscriptions.reset_to_time(options.topic, name, timestamp_ms)
    else:
        raise UsageError("magnetar: give one of --messageId and --time")


def _expire(admin: Any, options: Options) -> None:
    name = options.subscription
    if options.position is not None:
        admin.subscriptions.expire_to(
            options.topic, name, options.position, excluded=options.exclude_reset_position
        )
    elif options.expireTime is not None:
        admin.subscriptions.expire(options.topic, name, options.expireTime)
    else:
        raise UsageError("magnetar: give one of --position and --expireTime")


def _peek(admin: Any, options: Options) -> list[dict[str, Any]]:
    fetch = partial(admin.subscriptions.peek, options.topic, options.subscription)
    return peek(fetch, 1 if options.count is None else options.count)


def _set_properties(admin: Any, options: Options) -> None:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    properties = {} if options.clear else dict(options.property)
    admin.subscriptions.set_properties(options.topic, options.subscription, properties)


OWN: Final[Own] = {
    "subscriptions.reset": _reset,
    "subscriptions.expire_by": _expire,
    "subscriptions.peek_all": _peek,
    "subscriptions.set_properties": _set_properties,
    "subscriptions.set_replicated_status": lambda a, o: a.subscriptions.set_replicated_status(
        o.topic, o.subscription, enabled=choose_enabled(o)
    ),
}
