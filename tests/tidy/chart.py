"""Renders the templates of a Helm chart, as far as ours use the language: a small part of it.

An action that is not known fails; `helm template` is the judge where it is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

TOKEN = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')

Node = str | tuple[str, str, list[Any]]
"""A text, or an action: its keyword, the rest of it, and what is inside."""


def render(chart: Path, release: str, values: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The documents of each template, with the chart's values and those that replace them."""
    merged = merge(yaml.safe_load((chart / "values.yaml").read_text()), values)
    context = {"Release": {"Name": release}, "Values": merged}
    files = {path.name: path.read_text() for path in sorted((chart / "templates").iterdir())}
    renderer = Renderer(context)
    texts = {name: renderer.render(parse(tokens(text))) for name, text in files.items()}
    return {
        name: [each for each in yaml.safe_load_all(text) if each is not None]
        for name, text in texts.items()
        if not name.startswith("_")
    }


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = merge(known, value) if isinstance(known, dict) else value
    return merged


def tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Texts and actions; a dash takes the white space beside an action away."""
    place, trim = 0, False
    for match in TOKEN.finditer(text):
        before = text[place : match.start()]
        before = before.lstrip() if trim else before
        yield False, before.rstrip() if match[1] else before
        yield True, match[2]
        place, trim = match.end(), bool(match[3])
    yield False, text[place:].lstrip() if trim else text[place:]


def parse(parts: Iterator[tuple[bool, str]], inside: str = "") -> list[Node]:
    nodes: list[Node] = []
    for is_action, text in parts:
        keyword, _, rest = text.partition(" ")
        if not is_action:
            nodes.append(text)
        elif keyword in ("if", "range", "define"):
            nodes.append((keyword, rest, parse(parts, keyword)))
        elif keyword == "end":
            assert inside, "an end of nothing"
            return nodes
        elif keyword == "else":
            nodes.append(("else", "", []))
        else:
            nodes.append(("put", text, []))
    assert not inside, f"{inside} has no end"
    return nodes


class Renderer:
    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._defined: dict[str, list[Node]] = {}
        self._variables: dict[str, Any] = {}
        self._functions: Mapping[str, Callable[..., Any]] = {
            "include": lambda name, _: self.render(self._defined[name]),
            "not": lambda value: not value,
            "nindent": lambda width, text: "\n" + indent(int(width), text),
            "printf": lambda pattern, *given: pattern % given,
            "quote": lambda value: '"' + str(value).replace('"', '\\"') + '"',
            "sub": lambda left, right: int(left) - int(right),
            "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True).rstrip(),
        }

    def render(self, nodes: Sequence[Node]) -> str:
        return "".join(self._render_node(node) for node in nodes)

    def _render_node(self, node: Node) -> str:
        if isinstance(node, str):
            return node
        keyword, rest, body = node
        if keyword == "define":
            self._defined[rest.strip('"')] = body
            return ""
        if keyword == "if":
            ends = (
                i for i, each in enumerate(body) if isinstance(each, tuple) and each[0] == "else"
            )
            cut = next(ends, len(body))
            return self.render(body[:cut] if self._evaluate(rest) else body[cut + 1 :])
        if keyword == "range":
            names, _, source = rest.partition(" := ")
            key, value = (name.strip() for name in names.split(","))
            texts = []
            for name, setting in sorted(self._evaluate(source).items()):
                self._variables |= {key: name, value: setting}
                texts.append(self.render(body))
            return "".join(texts)
        assert keyword == "put", f"the action {keyword} is not known here"
        return str(self._evaluate(rest))

    def _evaluate(self, expression: str) -> Any:
        """Calls joined by pipes: what one gives is the last argument of the next."""
        result: list[Any] = []
        for step in expression.split(" | "):
            first, *others = WORD.findall(step)
            if first in self._functions:
                given = [self._value(each) for each in others]
                result = [self._functions[first](*given, *result)]
            else:
                assert not others and not result, f"{expression} is not known here"
                result = [self._value(first)]
        return result[0]

    def _value(self, word: str) -> Any:
        if word.startswith('"'):
            return word[1:-1]
        if word.isdigit():
            return int(word)
        if word.startswith("$"):
            return self._variables[word]
        found: Any = self._context
        for name in filter(None, word.split(".")):
            found = found[name]
        return found


def indent(width: int, text: str) -> str:
    return "\n".join(" " * width + line for line in text.splitlines())
