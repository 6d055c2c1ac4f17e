"""`magnetar spark holds`: what keeps messages for Spark queries, shown or ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from magnetar import Admin, ConfigurationError
from magnetar.cli.command import Options
from magnetar.cli.output import format_result
from magnetar.cli.security import make_authentication, make_tls


def run(options: Options) -> int:
    with Admin(
        options.admin_url, authentication=make_authentication(options), tls=make_tls(options)
    ) as admin:
        if options.release:
            topics = admin.reads.release_hold(options.namespace, options.release)
            if not topics:
                raise ConfigurationError(
                    f"There is no hold {options.release} on topics of {options.namespace}"
                )
            print(f"{options.release} is gone from {topics} topic(s)")
            return 0
        holds = admin.reads.holds(options.namespace)
    print(json.dumps(holds, indent=2) if options.json else format_holds(holds))
    return 0


def format_holds(holds: Mapping[str, Mapping[str, Any]]) -> str:
    if not holds:
        return "There are no holds"
    rows = [
        {"hold": name, "topics": len(each["topics"]), "entries": each["entries"]}
        for name, each in holds.items()
    ]
    return format_result(rows, "table")
