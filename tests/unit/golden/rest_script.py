"""The requests whose answers are recorded, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.unit.golden.policy_script import namespace_policies, topic_policies
from tests.unit.golden.request import PUBLISH, V2, Request

SCRIPTS: Final = Path(__file__).parents[2] / "golden" / "admin" / "script"
# Whole interfaces that are not served, at any depth down to this one.
_TREES: Final = (
    *(f"/admin/v3/{name}" for name in ("functions", "sources", "sinks", "packages")),
    f"{V2}/worker",
    f"{V2}/worker-stats",
    "/topics",
)
_TREE_DEPTH_MAX: Final = 7
_LINE: Final = re.compile(r"(?:\[(.+?)\] )?(\S+) (\S+)(?: (.+))?")


def rest_requests() -> Iterator[Request]:
    yield from read_requests("cluster")
    yield from namespace_policies(f"{V2}/namespaces/shop/eu")
    for domain in ("persistent", "non-persistent"):
        yield from read_requests("topic", DOMAIN=domain)
        yield Request("PUT", f"{V2}/{domain}/shop/eu/policed")
        yield from topic_policies(domain)
        yield Request("DELETE", f"{V2}/{domain}/shop/eu/policed")
    for root in ("scalable", "scalable-topics"):
        yield from read_requests("scalable", ROOT=root)
    yield Request("PUT", f"{V2}/scalable/shop/eu/policed")
    yield from topic_policies("topic")
    for tree in _TREES:
        for depth in range(_TREE_DEPTH_MAX):
            for method in ("GET", "PUT", "POST", "DELETE"):
                yield Request(method, tree + "/x" * depth)
    yield from read_requests("transaction")
    yield from read_requests("read")
    yield from read_requests("last")


def read_requests(name: str, **words: str) -> Iterator[Request]:
    text = (SCRIPTS / f"{name}.txt").read_text()
    for word, value in words.items():
        text = text.replace(f"${word}", value)
    for line in text.splitlines():
        if line.startswith(("#", f"{PUBLISH} non-persistent:")):  # nothing of those is kept
            continue
        found = _LINE.fullmatch(line)
        assert found, line
        header, method, path, body = found.groups()
        yield Request(method, path.replace("~", V2, 1), body, header or "")
