"""The classes of the package with those of the package that they are made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from tests.tidy.source import Source, written_sources


@cache
def known_classes() -> Mapping[str, tuple[Source, ast.ClassDef]]:
    """By the full name, those that stand in a module of their own right."""
    return {
        f"{source.module}.{node.name}": (source, node)
        for source in written_sources()
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }


def lineage(name: str) -> Iterator[str]:
    """The class and those above it, as far as the package has them; some come twice."""
    if name in known_classes():
        yield name
        for base in bases_of(name):
            yield from lineage(base)


def bases_of(name: str) -> Iterator[str]:
    """As full names; `Protocol` and other foreign ones stand in no module of the package."""
    source, node = known_classes()[name]
    imported = {each.name: each.target for each in source.imports() if each.name is not None}
    for base in node.bases:
        spelled = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, dot, rest = spelled.partition(".")
        yield imported.get(first, f"{source.module}.{first}") + dot + rest


def is_protocol(name: str) -> bool:
    return "typing.Protocol" in bases_of(name)
