"""Limits that cutting files cannot meet, beside the length of files: what a class may do, show and
pass on. Those beyond a limit are listed with a reason; the numbers are a ratchet and only fall.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pytest

from tests.tidy.heritage import is_protocol, known_classes, lineage
from tests.tidy.source import FUNCTIONS, ROOT, written_sources

LINES_MAX = 500
METHODS_MAX = 25
SHOWN_MAX = 8
PASSED_MAX = 5
PASSED_SHARE_MAX = 0.34

Beyond: TypeAlias = Mapping[str, tuple[int, str]]

# Longer files, and why each stays whole.
LONGER: Mapping[str, str] = {}

CONTRACT = "carries out a contract, and each method of it"

METHODS: Beyond = {
    "ledger/backends/file/store.py:FileLedgerStore": (31, CONTRACT),
    "metadata/backends/zookeeper.py:ZookeeperStore": (32, CONTRACT),
    "metadata/backends/zookeeper_tree.py:ZookeeperTree": (30, CONTRACT),
    "rules/dispatch/shared.py:Shared": (34, "one method for each event, and key-shared's hooks"),
    "testing/ledger.py:FaultyLedgerStore": (30, CONTRACT),
}

_CONSUMER = "what its users call is the sum of what every consumer does and of its own"
_STATE = "one state, and its classes are cut by what changes it: a method is called by its owner"
_SERVER = "one that its tests start, stop, pause and ask"
# With those that a class inherits from others of the package.
INHERITED: Beyond = {
    "broker/connection.py:Connection": (38, "a socket, and one method for each thing it is told"),
    "broker/persistent.py:PersistentTopic": (29, "what a topic of either kind has, and its log"),
    "broker/subscription.py:Subscription": (34, "what every group of consumers has, and a cursor"),
    "client/checkpoint_consumer.py:CheckpointTopic": (31, "what one topic of a consumer is told"),
    "client/consumer.py:AsyncConsumer": (55, _CONSUMER),
    "client/consumer.py:AsyncQueueConsumer": (47, _CONSUMER),
    "client/consumer.py:IndividualConsumer": (47, _CONSUMER),
    "client/consumer.py:SubscriptionConsumer": (33, _CONSUMER),
    "client/blocking_consumer.py:Consumer": (34, _CONSUMER),
    "client/blocking_consumer.py:QueueConsumer": (30, _CONSUMER),
    "client/blocking_consumer.py:SyncIndividual": (30, _CONSUMER),
    "client/producer.py:AsyncProducer": (29, "what its users call, and the loop that sends"),
    "client/consumer_set.py:SegmentConsumer": (29, "what one topic of a consumer is told"),
    "client/blocking_consumer.py:StreamConsumer": (26, _CONSUMER),
    "client/checkpoint_consumer.py:AsyncCheckpointConsumer": (26, _CONSUMER),
    "client/client.py:AsyncPulsarClient": (26, "one method for each thing it opens"),
    "client/transaction.py:AsyncTransaction": (
        26,
        "what its users call, and what sends and consumers tell it",
    ),
    "client/stream.py:AsyncStreamConsumer": (35, _CONSUMER),
    "client/stream.py:StreamTopic": (27, "what one topic of a consumer is told"),
    "columns/entry_reader.py:AsyncEntryReader": (32, "a consumer of one segment, read by entries"),
    "columns/resumable.py:AsyncResumableProducer": (43, "a producer, and what makes it repeatable"),
    "ledger/backends/bookkeeper/import_store.py:BookkeeperImportStore": (27, CONTRACT),
    "ledger/backends/file/store.py:FileLedgerStore": (30, CONTRACT),
    "ledger/cursor.py:Cursor": (43, _STATE),
    "metadata/backends/zookeeper.py:ZookeeperStore": (32, CONTRACT),
    "metadata/backends/zookeeper_tree.py:ZookeeperTree": (30, CONTRACT),
    "rules/dispatch/keyshared.py:KeyShared": (46, _STATE),
    "rules/dispatch/shared.py:Shared": (41, _STATE),
    "testing/apache.py:ApacheBroker": (28, _SERVER),
    "testing/bookkeeper.py:Bookie": (34, _SERVER),
    "testing/java.py:JavaServer": (26, _SERVER),
    "testing/ledger.py:FaultyLedgerStore": (30, CONTRACT),
    "testing/member.py:ClusterBroker": (26, _SERVER),
    "testing/zookeeper.py:ZookeeperServer": (36, _SERVER),
    "testing/zookeeper.py:_Member": (36, _SERVER),
}

SHOWN: Beyond = {
    "broker/administration/topic_table.py:Row": (11, "a row that is summed up in place"),
    "broker/persistent.py:PersistentTopic": (9, "what a topic of either kind has, and its limits"),
    "client/outgoing.py:Outgoing": (9, "a record that its producer alone writes"),
    "ledger/backends/file/ledger.py:FileLedger": (12, "a record that its store alone writes"),
}

PASSED: Beyond = {
    "ledger/backends/joint.py:JointLedgerStore": (6, CONTRACT),
    "testing/ledger.py:FaultyLedgerStore": (12, "a store around another"),
}

# Files in which more of the functions only pass on, and why.
PASSING: Mapping[str, str] = {"testing/ledger.py": "a store around another"}
FUNCTIONS_MIN = 5
"""Of fewer no share is a habit."""


def test_longer_files_are_the_listed_ones() -> None:
    paths = [source.path for source in written_sources()]
    paths += [
        path for folder in ("bench", "demo", "tools") for path in (ROOT / folder).glob("*.py")
    ]
    longer = {
        path.relative_to(ROOT).as_posix(): lines
        for path in paths
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert set(longer) == set(LONGER), longer


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for source in written_sources():
        if source.generated:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                yield f"{source.inside}:{node.name}", node


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        each
        for each in node.body
        if isinstance(each, FUNCTIONS)
        and not any(isinstance(d, ast.Name) and d.id == "overload" for d in each.decorator_list)
    ]


def count_methods(node: ast.ClassDef) -> int:
    return len(methods_of(node))


def count_inherited(name: str) -> int:
    """One that overrides another is counted once."""
    return len(
        {method.name for each in lineage(name) for method in methods_of(known_classes()[each][1])}
    )


def count_shown(node: ast.ClassDef) -> int:
    """Public attributes that may be set again: fields of a record, and what its methods assign."""
    if is_immutable(node):
        return 0
    shown = {name for each in node.body if (name := field_of(each))} if is_record(node) else set()
    fixed = set()
    for method in methods_of(node):
        for each in ast.walk(method):
            if isinstance(each, ast.AnnAssign) and is_fixed(each):
                fixed.add(own_attribute(each.target))
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                shown.add(own_attribute(each))
    return len(shown - fixed - {""})


def is_immutable(node: ast.ClassDef) -> bool:
    says = [*node.decorator_list, *node.keywords]
    bases = " ".join(map(ast.unparse, node.bases))
    is_frozen = any("frozen=True" in ast.unparse(each) for each in says)
    return is_frozen or bool(re.search(r"\b(NamedTuple|Protocol|\w*Enum)\b", bases))


def is_record(node: ast.ClassDef) -> bool:
    says = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any("dataclass" in each or each.endswith("Struct") for each in says)


def is_fixed(node: ast.AnnAssign) -> bool:
    return ast.unparse(node.annotation).startswith(("Final", "ClassVar"))


def field_of(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not is_fixed(node):
        return node.target.id if not node.target.id.startswith("_") else ""
    return ""


def own_attribute(node: ast.expr) -> str:
    """The public name in `self.name`."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
        return node.attr if not node.attr.startswith("_") else ""
    return ""


def count_passed(node: ast.ClassDef) -> int:
    return sum(map(is_passed_on, methods_of(node)))


def is_passed_on(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method only asks an attribute for the same: `return self._inner.read(place)`."""
    body = [
        each
        for each in method.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    value = body[0].value
    if isinstance(value, ast.Await):
        value = value.value
    if not isinstance(value, ast.Call):
        return isinstance(body[0], ast.Return) and is_of_attribute(value)
    given = [*value.args, *(each.value for each in value.keywords)]
    names = sorted(each.id for each in given if isinstance(each, ast.Name))
    arguments = sorted(each.arg for each in (*method.args.args[1:], *method.args.kwonlyargs))
    return is_of_attribute(value.func) and len(names) == len(given) and names == arguments


def is_of_attribute(value: ast.expr | None) -> bool:
    """Whether it is `self.one.other`."""
    return (
        isinstance(value, ast.Attribute)
        and isinstance(value.value, ast.Attribute)
        and isinstance(value.value.value, ast.Name)
        and value.value.value.id == "self"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A:\n def f(self) -> None:\n  self.a = self._b = 1", 1),
        ("class A:\n def f(self) -> None:\n  self.a: Final = 1\n  self.b: int = 1", 1),
        ("@dataclass(slots=True)\nclass A:\n a: int\n b: Final[int]\n _c: int", 1),
        ("@dataclass(frozen=True)\nclass A:\n a: int", 0),
        ("class A(Struct):\n a: int", 1),
        ("class A(Struct, frozen=True):\n a: int", 0),
        ("class A(NamedTuple):\n a: int", 0),
    ],
)
def test_an_attribute_that_may_be_set_again_is_counted(text: str, expected: int) -> None:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.ClassDef)
    assert count_shown(node) == expected


@pytest.mark.parametrize(
    ("count", "most", "listed"),
    [
        (count_methods, METHODS_MAX, METHODS),
        (count_shown, SHOWN_MAX, SHOWN),
        (count_passed, PASSED_MAX, PASSED),
    ],
    ids=["methods", "public attributes", "members that pass on"],
)
def test_classes_beyond_a_limit_are_the_listed_ones(
    count: Callable[[ast.ClassDef], int], most: int, listed: Beyond
) -> None:
    found = {name: number for name, node in classes() if (number := count(node)) > most}
    assert_listed(found, listed)


def assert_listed(found: Mapping[str, int], listed: Beyond) -> None:
    expected = {name: number for name, (number, _) in listed.items()}
    assert found == expected, {
        name: (found.get(name), expected.get(name))
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    }


def test_no_file_only_passes_on() -> None:
    passing = set()
    for source in written_sources():
        made = [each for each in ast.walk(source.tree) if isinstance(each, FUNCTIONS)]
        if len(made) >= FUNCTIONS_MIN and share_passed(made) > PASSED_SHARE_MAX:
            passing.add(source.inside)
    assert passing == PASSING.keys()


def share_passed(functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> float:
    return sum(map(is_passed_on, functions)) / len(functions)


def test_classes_with_many_methods_of_their_own_and_inherited_ones_are_the_listed_ones() -> None:
    """What a class is cut into is still one class to who reads it. Ports have a test of theirs."""
    found = {
        f"{source.inside}:{node.name}": number
        for name, (source, node) in known_classes().items()
        if not is_protocol(name) and (number := count_inherited(name)) > METHODS_MAX
    }
    assert_listed(found, INHERITED)
