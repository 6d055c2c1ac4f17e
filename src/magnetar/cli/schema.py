"""What `magnetar admin schemas` does beside a single call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import Options, UsageError
from magnetar.cli.derive import Own


def _payload(options: Options) -> dict[str, Any]:
    path = Path(options.filename)
    try:
        document = json.loads(path.read_text())
        return {
            "type": document["type"],
            "definition": document["schema"],
            "properties": document.get("properties", {}),
        }
    except OSError as error:
        raise UsageError(f"magnetar: cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f'magnetar: {path} is not JSON with "type" and "schema"') from None


def _get(admin: Any, options: Options) -> Any:
    if options.version is not None and options.all_version:
        raise UsageError("magnetar: give one of --version and --all-version")
    if options.all_version:
        return admin.schemas.get_all(options.topic)
    return admin.schemas.get(options.topic, version=options.version)


OWN: Final[Own] = {
    "schemas.get": _get,
    "schemas.upload": lambda a, o: {"version": a.schemas.upload(o.topic, **_payload(o))},
    "schemas.check": lambda a, o: a.schemas.check(o.topic, **_payload(o)),
}
