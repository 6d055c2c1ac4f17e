"""`magnetar admin schemas`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import TOPIC, Flag, Options, Switch, UsageError, Verb

_FILE: Final = Flag(
    ("-f", "--filename"),
    'JSON file with "type", "schema" and "properties"',
    parse=Path,
    required=True,
    variable="FILE",
)


def _payload(path: Path) -> dict[str, Any]:
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


VERBS: Final = (
    Verb(
        "get",
        "show the schema of a topic",
        (
            TOPIC,
            Flag(("-v", "--version"), "an older version", parse=int),
            Switch(("-a", "--all-version"), "all versions"),
        ),
        _get,
    ),
    Verb(
        "upload",
        "register a schema",
        (TOPIC, _FILE),
        lambda a, o: {"version": a.schemas.upload(o.topic, **_payload(o.filename))},
    ),
    Verb(
        "delete",
        "delete the schema of a topic",
        (TOPIC, Switch(("-f", "--force"), "and forget all versions")),
        lambda a, o: a.schemas.delete(o.topic, force=o.force),
        shows=False,
    ),
    Verb(
        "compatibility",
        "ask whether a schema would be accepted",
        (TOPIC, _FILE),
        lambda a, o: a.schemas.check(o.topic, **_payload(o.filename)),
    ),
    Verb(
        "metadata",
        "show how the schema is stored",
        (TOPIC,),
        lambda a, o: a.schemas.metadata(o.topic),
    ),
)
