"""The rooms of the package and who may know whom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

import magnetar
from tests.tidy.heritage import is_protocol, known_classes, lineage
from tests.tidy.source import FUNCTIONS, PACKAGE, ROOT, Import, Source, sources, written_sources

BROKER_SEES = ("errors", "model", "rules", "wire", "runtime", "metadata", "ledger", "operation")
EVERYTHING_BELOW = (*BROKER_SEES, "broker", "admin", "client", "columns", "cli", "spark")
# The one part of a backend that another room may read by: settled ledgers are files that explain
# themselves, and a Spark task on the broker's machine reads them without asking the broker.
SETTLED_FILES = "ledger.backends.file.part"
# And what it reads bookies by, over a copy of their records.
BOOKIES = ("ledger.backends.bookkeeper", "metadata.backends.memory", "metadata.store")
# A room, and the modules it may import beside its own; a name covers all below it.
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "__init__": ("client", "errors"),
    "__main__": ("cli",),
    "errors": (),
    "model": ("errors",),
    "rules": ("operation", "model", "errors"),
    "wire": ("model", "errors"),
    "runtime": ("errors",),
    "metadata": ("model", "runtime", "errors"),
    "ledger": ("wire.bookkeeper", "metadata.store", "model", "runtime", "errors"),
    "operation": ("model", "errors"),
    "broker": BROKER_SEES,
    "admin": (
        "operation",
        "broker.administration",
        "wire",
        "model",
        "runtime",
        "errors",
    ),
    "client": ("operation", "wire", "rules", "model", "runtime", "errors"),
    "columns": ("client", "wire", "rules", "model", "runtime", "errors"),
    "cli": (
        "client",
        "columns",
        "operation",
        "rules.token",
        "wire.jwt",
        "model",
        "runtime",
        "errors",
    ),
    "spark": (
        "client",
        "columns",
        "rules",
        "model",
        "runtime.clock",
        "runtime.credential",
        "errors",
        SETTLED_FILES,
        *BOOKIES,
    ),
    "app": (*EVERYTHING_BELOW, "testing"),
    "testing": EVERYTHING_BELOW,
}
# How the guide says what a room sees, where it is not spelled.
WORDS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("nothing",),
    BROKER_SEES: ("above", "all", "rows"),
    ALLOWED["app"]: ("everything",),
    ALLOWED["testing"]: ("app", "but", "everything"),
}
GUIDE = ROOT / "CONTRIBUTING.md"
PURE = ("model", "rules", "wire", "operation")
TIME_AND_CHANCE = ("datetime", "random", "sched", "secrets", "time", "uuid")
TASKS = ("asyncio", "concurrent", "multiprocessing", "queue", "signal", "subprocess", "threading")
INPUT = ("os", "pathlib", "select", "selectors", "shutil", "socket", "sqlite3", "ssl", "tempfile")
IMPURE_MODULES = frozenset((*TIME_AND_CHANCE, *TASKS, *INPUT))
IMPURE_CALLS = ("open", "io.open", "input", "print")
BACKENDS = ("magnetar.metadata.backends", "magnetar.ledger.backends")
# The names that the package shows are the client's.
PUBLIC = frozenset(magnetar.__all__)
PB_DOORS = (
    "wire/bookkeeper.py",
    "wire/command.py",
    "wire/foreign_transaction.py",
    "wire/schema.py",
    "wire/storage.py",
)
# The rooms that may know a heavy or optional library.
LIBRARY_ROOMS: Mapping[str, tuple[str, ...]] = {
    "pyspark": ("spark",),
    "py4j": ("spark",),
    "pyarrow": ("spark", "columns", "client"),
    "numpy": ("spark", "columns"),
    "pandas": ("spark",),
    "kazoo": ("metadata", "testing"),
    "sqlite3": ("metadata", "app"),
    "uvicorn": ("admin",),
    "uvloop": ("runtime",),
    "pytest": ("testing",),
    "google": ("wire", "rules"),
}
# Imports that stand inside a function on purpose, and why.
LAZY: Mapping[str, str] = {
    "runtime/event_loop.py": "uvloop is not there on every system",
    "broker/authentication/authenticator.py": "most brokers need no provider, or one",
    "app/cluster.py": "kazoo comes with an extra",
    "app/bookkeeper.py": "kazoo comes with an extra",
    "app/metadata.py": "kazoo comes with an extra",
    "cli/admin.py": "the help of a verb needs no client",
    "cli/token.py": "cryptography comes with an extra, and is slow to load",
    "client/client.py": "few applications administrate; HTTP is loaded for those",
    "client/blocking_client.py": "few applications administrate; HTTP is loaded for those",
    "client/admin/network.py": "only a supplier of tokens that is a coroutine needs a loop",
    "client/admin/policy.py": "most commands are about no policy, and the table takes its time",
    "client/admin/service.py": "the blocking client, and with it a command, needs no event loop",
    "errors.py": "every command starts with this module, and few words are misspelled",
    "client/error.py": "a command over plain HTTP that does not fail needs no TLS",
    "client/authentication.py": "a command over plain HTTP needs no TLS",
    "client/message_id.py": "the admin commands use ids and never meet the protocol",
    "client/cipher_loader.py": "cryptography comes with an extra",
    "client/schema/schema.py": "fastavro takes its time, and most clients have no Avro",
    "client/telemetry.py": "prometheus_client and opentelemetry come with an extra",
    "wire/jwt.py": "PyJWT loads cryptography, which takes its time and comes with an extra",
    "broker/administration/message_value.py": "fastavro takes its time, and few look at messages",
    "wire/policy_event.py": "fastavro takes its time, and most brokers have no events to read",
    "app/storage.py": "brokers with ledgers in files start without a client of BookKeeper",
    "wire/compression.py": "a codec is loaded when it is first met: most processes need none",
}
# Modules loaded by name, and why.
BY_NAME: Mapping[str, str] = {
    "client/checkpoint_consumer.py": "pyarrow comes with an extra, and is slow to load",
    "columns/__init__.py": "a name is loaded with its first use: some need pyarrow",
    "__init__.py": "a public name is loaded with its first use, so that the import stays quick",
    "broker/administration/__init__.py": "a function is registered when its module is loaded",
    "broker/topicpolicy/choice.py": "an operator names the class that keeps the topic policies",
    "cli/admin.py": "a group of verbs is loaded when it is called, so that each starts quickly",
    "cli/spark.py": "a job needs an extra, and starts a library that takes seconds to load",
    "spark/daemon.py": "Spark names the module that workers run",
    "spark/small_batch.py": "a class that PySpark does not promise to keep",
    "cli/table.py": "a command loads its own module only, so that each starts quickly",
    "cli/server.py": "the commands start the assembly, which is above the room",
    "app/demo.py": "Spark and the official client are not there on every system",
    "testing/broker.py": "the in-process broker is the assembly, which is above the room",
}


def own_imports(source: Source) -> Iterator[Import]:
    return (each for each in source.imports() if each.module.split(".")[0] == "magnetar")


def is_refused(source: Source, each: Import) -> bool:
    target = each.target.removeprefix("magnetar").removeprefix(".")
    if target in ("", "__version__"):
        return False
    allowed = (source.room, *ALLOWED[source.room])
    if each.module == "magnetar" and each.name in PUBLIC and "client" in allowed:
        return False
    return not any(target == name or target.startswith(name + ".") for name in allowed)


def is_private(target: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in target.split("."))


def show(source: Source, each: Import) -> str:
    return f"{source.inside}:{each.line} imports {each.target}"


def test_every_room_has_a_row_in_the_table() -> None:
    assert {source.room for source in sources()} <= set(ALLOWED)


def test_the_table_that_people_read_is_the_one_that_is_held() -> None:
    """What starts the package from its top is no room."""
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| .* \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    read = {room: tuple(sorted(seen.split())) for room, seen in rows}
    held = {
        room: WORDS.get(seen, tuple(sorted(seen)))
        for room, seen in ALLOWED.items()
        if not room.startswith("__")
    }
    assert read == held


def test_a_room_imports_only_what_the_table_allows() -> None:
    wrong = [
        show(source, each)
        for source in written_sources()
        for each in own_imports(source)
        if is_refused(source, each)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("room", "target", "expected"),
    [
        ("model", "magnetar.wire.frame", True),
        ("admin", "magnetar.broker.administration.web.Administration", False),
        ("admin", "magnetar.broker.topic", True),
        ("admin", "magnetar.broker.administrations", True),
        ("broker", "magnetar.admin", True),
        ("testing", "magnetar.app.standalone", True),
        ("cli", "magnetar.__version__", False),
        ("cli", "magnetar.PulsarClient", False),
        ("broker", "magnetar.PulsarClient", True),
    ],
)
def test_the_table_tells_right_from_wrong(room: str, target: str, expected: bool) -> None:
    module, _, name = target.rpartition(".")
    source = Source(PACKAGE / room / "anything.py")
    assert is_refused(source, Import(module, name, 1)) is expected


def test_backends_are_named_by_the_assembly_alone() -> None:
    wrong = [
        show(source, each)
        for source in written_sources()
        if source.room not in ("app", "testing")
        for each in own_imports(source)
        for backends in BACKENDS
        if each.target.startswith(backends) and not source.module.startswith(backends)
        if not (source.inside == "spark/file.py" and each.module == f"magnetar.{SETTLED_FILES}")
        if not (source.inside == "spark/bookie.py" and each.module.endswith(BOOKIES))
    ]
    assert not wrong


def test_generated_code_is_seen_by_its_doors_alone() -> None:
    wrong = [
        show(source, each)
        for source in written_sources()
        if source.inside not in PB_DOORS
        for each in own_imports(source)
        if each.target.startswith("magnetar.wire.pb")
    ]
    assert not wrong


def test_no_room_reaches_into_the_private_names_of_another() -> None:
    wrong = [
        show(source, each)
        for source in written_sources()
        for each in own_imports(source)
        if each.module.split(".")[1:2] != [source.room] and is_private(each.target)
    ]
    assert not wrong


def test_a_pure_room_has_no_time_chance_or_input() -> None:
    wrong: list[str] = []
    for source in written_sources():
        if source.room not in PURE:
            continue
        wrong += [
            show(source, each)
            for each in source.imports()
            if each.module.split(".")[0] in IMPURE_MODULES
        ]
        wrong += [
            f"{source.inside}:{node.lineno} is asynchronous"
            for node in ast.walk(source.tree)
            if isinstance(node, ast.AsyncFunctionDef | ast.Await)
        ]
        wrong += [
            f"{source.inside}:{line} calls {call}"
            for call, line in source.calls()
            if call in IMPURE_CALLS
        ]
    assert not wrong


def test_a_heavy_library_stays_in_its_rooms() -> None:
    wrong = [
        show(source, each)
        for source in written_sources()
        for each in source.imports()
        if source.room not in LIBRARY_ROOMS.get(each.module.split(".")[0], (source.room,))
    ]
    assert not wrong


def test_imports_inside_functions_are_the_listed_ones() -> None:
    hidden = {
        source.inside
        for source in written_sources()
        for each in source.imports()
        if each.in_function
    }
    assert hidden == set(LAZY)


def test_imports_by_name_are_the_listed_ones() -> None:
    by_name = {
        source.inside
        for source in written_sources()
        for call, _ in source.calls()
        if call.endswith("import_module")
    }
    assert by_name == set(BY_NAME)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert list(circles(types=False)) == []


def test_imports_for_types_have_one_direction_too() -> None:
    """An owner states what it needs of another as a port; it does not name it, even as a type."""
    assert list(circles(types=True)) == []


PORT_MAX = 10
# The two edges at which requests come in: they hand each of the owners on to what needs it, by
# what the functions and the makers of handlers name. And a topic to its subscriptions: its log,
# what it hides of transactions and what limits it are of the topic. The numbers only fall.
EDGES: Mapping[str, int] = {
    "AdministrationOwners": 29,
    "CommandOwners": 15,
    "SetTopic": 15,
    "SubscribedTopic": 13,
}
COMPOSITION = "magnetar.broker.service"


def test_no_part_of_the_broker_knows_the_whole_of_it() -> None:
    """What puts a broker together names it; everything else states a port."""
    wrong = [
        show(source, each)
        for source in written_sources()
        if source.room not in ("app", "testing") and source.inside != "broker/node.py"
        for each in own_imports(source)
        if each.module == COMPOSITION or each.target == COMPOSITION
    ]
    assert not wrong


SCALABLE = "magnetar.broker.scalable"
DATA_PLANE = (
    "magnetar.broker.catalog",
    "magnetar.broker.connection",
    "magnetar.broker.consumer",
    "magnetar.broker.binary_server",
    "magnetar.broker.nonpersistent",
    "magnetar.broker.persistent",
    "magnetar.broker.producer",
    "magnetar.broker.subscription",
    "magnetar.broker.topic",
    "magnetar.broker.topic_log",
    "magnetar.ledger.log",
)


@pytest.mark.parametrize("module", DATA_PLANE)
def test_the_data_plane_reaches_nothing_of_the_scalable_plane(module: str) -> None:
    """Not by way of other modules either, and not for types."""
    known = {source.module: source for source in written_sources()}
    reached, waiting = {module}, [module]
    while waiting:
        found = imported_modules(known[waiting.pop()], known, types=True) - reached
        reached |= found
        waiting += found
    assert len(reached) > 1
    assert not [each for each in sorted(reached) if each.startswith(SCALABLE)]


def test_the_tables_of_operations_have_real_types() -> None:
    wrong = [
        f"{source.inside}:{node.lineno}"
        for source in written_sources()
        if source.room == "operation"
        for node in ast.walk(source.tree)
        if (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "typing.Any")
    ]
    assert not wrong


def test_a_port_names_few_owners() -> None:
    """Every protocol of the broker says what its owner needs of others."""
    sizes = {
        node.name: count_members(name)
        for name, (source, node) in known_classes().items()
        if source.room == "broker" and is_protocol(name)
    }
    assert len(sizes) > 100
    assert {name: size for name, size in sizes.items() if size > PORT_MAX} == EDGES


def count_members(port: str) -> int:
    members: set[str] = set()
    for each in lineage(port):
        for node in known_classes()[each][1].body:
            if isinstance(node, FUNCTIONS):
                members.add(node.name)
            elif isinstance(node, ast.AnnAssign):
                members.add(ast.unparse(node.target))
    return sum(not name.startswith("_") for name in members)


def circles(*, types: bool) -> Iterator[set[str]]:
    """The largest sets of modules that all reach each other, by Tarjan's algorithm."""
    known = {source.module: source for source in written_sources()}
    graph = {
        module: sorted(imported_modules(source, known, types=types))
        for module, source in known.items()
    }
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    trail: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        order[module] = lowest[module] = len(order)
        trail.append(module)
        for target in graph[module]:
            if target not in order:
                yield from visit(target)
            if target in trail:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            circle = set(trail[trail.index(module) :])
            del trail[trail.index(module) :]
            if len(circle) > 1:
                yield circle

    for module in graph:
        if module not in order:
            yield from visit(module)


def imported_modules(source: Source, known: Mapping[str, Source], *, types: bool) -> set[str]:
    targets = (
        each.target if each.target in known else each.module
        for each in own_imports(source)
        if (types or not each.for_types) and each.target != "magnetar.__version__"
    )
    return {target for target in targets if target in known and target != source.module}
