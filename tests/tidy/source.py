"""The project's own source as data: files, rooms and what they import."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "magnetar"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Import:
    module: str
    name: str | None
    line: int
    in_function: bool = False
    for_types: bool = False

    @property
    def target(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Source:
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        # A collection within the parser may run code that parses too: CPython 3.11 then raises
        # SystemError, "AST constructor recursion depth mismatch".
        gc.disable()
        try:
            return ast.parse(self.text, str(self.path))
        finally:
            gc.enable()

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def inside(self) -> str:
        """Where it stands in the package, as `broker/topic.py`."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        """The first folder, or the file itself for what stands at the top: `errors`."""
        return self.inside.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        parts = ("magnetar", *self.path.relative_to(PACKAGE).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def generated(self) -> bool:
        return self.inside.startswith(
            (
                "wire/pb/",
                "client/admin/blocking.py",
                "client/admin/operation.py",
                "model/answer/record.py",
            )
        )

    @cache  # noqa: B019 - the sources live as long as the run
    def imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree, in_function=False, for_types=False))

    def calls(self) -> Iterator[tuple[str, int]]:
        """Every call as its dotted text and line: `time.time`, `open`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func), node.lineno


def _imports(node: ast.AST, *, in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, None, child.lineno, in_function, for_types)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: relative import"
            for alias in child.names:
                yield Import(child.module or "", alias.name, child.lineno, in_function, for_types)
        else:
            yield from _imports(
                child,
                in_function=in_function or isinstance(child, FUNCTIONS),
                for_types=for_types
                or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"),
            )


@cache
def sources() -> tuple[Source, ...]:
    return tuple(Source(path) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def written_sources() -> tuple[Source, ...]:
    return tuple(source for source in sources() if not source.generated)
