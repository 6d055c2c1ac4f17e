"""`magnetar configuration`: the keys of a broker, and which of them do something."""

from __future__ import annotations

from magnetar.cli.command import Options, UsageError
from magnetar.cli.output import format_result
from magnetar.errors import InvalidConfiguration
from magnetar.runtime.key import Key, Use, find_key, format_value, load_keys
from magnetar.runtime.spelling import canonical_name


def run(options: Options) -> int:
    if options.key is not None:
        try:
            keys = [find_key(canonical_name(options.key))]
        except InvalidConfiguration as error:
            raise UsageError(f"magnetar configuration: {error.sentence}") from None
    else:
        keys = sorted(load_keys().values(), key=lambda key: key.name)
    rows = [_describe(key) for key in keys if not options.acting or key.use is Use.ACTING]
    print(format_result(rows[0] if options.key and rows else rows, options.output))
    return 0


def _describe(key: Key) -> dict[str, str]:
    use = {Use.ACTING: "acts", Use.INERT: "without effect", Use.REFUSED: "only its default"}
    return {
        "key": key.name,
        "use": use[key.use],
        "default": format_value(key.default),
        "standalone": format_value(key.standalone_default),
        "changes": "at run time" if key.dynamic else "at start",
        "value": key.expected,
        "meaning": key.meaning,
    }
