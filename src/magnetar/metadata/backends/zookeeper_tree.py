"""Records as nodes of a ZooKeeper tree.

Every parent in ZooKeeper is a node. One that is there for its children only is known by its state:
no value, never written (`Node.is_bare`). So a record with an empty value is written once more when
it is made, and a record put where such a parent stands begins at version 1. Parents come with the
first record below them, in one transaction, and the last record below takes them along. Numbers of
sequences are counted in a subtree of their own that no listing shows.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

from magnetar.errors import (
    InvalidPath,
    RecordNotEmpty,
    RecordNotFound,
    RecordUnreadable,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.backends import zookeeper_request as ask
from magnetar.metadata.backends.zookeeper_link import OwnEvents
from magnetar.metadata.backends.zookeeper_request import Created, Found, Node, Request
from magnetar.metadata.path import ROOT, child_of, lineage_of, name_of, parent_of
from magnetar.metadata.sequence import advance, format_sequence
from magnetar.metadata.store import ABSENT, ANY_VERSION

COUNTERS: Final = "/.magnetar-sequence"
_SYSTEM: Final = "zookeeper"
_TRIES_MAX: Final = 64
_NOTED_MAX: Final = 10_000
_WINDOW: Final = 1_000


class Asker(Protocol):
    def __call__(
        self,
        request: Request,
        own_events: OwnEvents | None = None,
        note: Callable[[Any], None] | None = None,
    ) -> Awaitable[Any]:
        """Send the request when this is called, or when a lost connection is back."""


class ZookeeperTree:
    """The operations of the store below one node of a server, `root`: empty or `/a/b`."""

    def __init__(self, root: str, asker: Asker) -> None:
        self._root = root
        self._ask = asker
        self._growing: dict[str, asyncio.Future[None]] = {}
        self._counting: dict[str, asyncio.Lock] = {}
        self._children: dict[str, int] = {}
        """How many nodes are below some, kept by the events; a deletion that leaves others behind
        need not look whether its parent has become useless."""

    def place(self, path: str) -> str:
        """The node of a path."""
        return self._root + path if path != ROOT else self._root or ROOT

    def path_of(self, node: str) -> str | None:
        """The path of a node; None for nodes that are none of the store's."""
        if not node.startswith(self._root):
            return None
        path = node[len(self._root) :] or ROOT
        first = path.split("/", 2)[1]
        if first == _SYSTEM or path.startswith(COUNTERS) or not path.startswith("/"):
            return None
        return path

    def on_event(self, kind: int, node: str) -> None:
        """A node came, went or changed; in order with the answers."""
        if not self._children or kind == ask.CHANGED:
            return
        if kind == ask.DELETED:
            self._children.pop(node, None)
        above = parent_of(node)
        if above in self._children:
            self._children[above] += 1 if kind == ask.CREATED else -1

    def forget(self) -> None:
        """Events may have been missed."""
        self._children.clear()

    def _note_children(self, node: str, state: Node | None) -> None:
        if len(self._children) >= _NOTED_MAX:
            self._children.clear()
        if state is not None:
            self._children[node] = state.children

    async def make_root(self) -> None:
        for node in reversed(tuple(lineage_of(self._root or ROOT))):
            if node != ROOT:
                try:
                    await self._ask(ask.create(node, b""))
                except NodeExistsError:
                    pass

    async def find(self, path: str) -> Found | None:
        try:
            found: Found = await self._ask(ask.get(self.place(path)))
        except NoNodeError:
            return None
        return None if found.node.is_bare else found

    async def exists(self, path: str) -> bool:
        node: Node | None = await self._ask(ask.look(self.place(path)))
        if path == ROOT:
            return True
        return node is not None and (not node.is_bare or node.children > 0)

    async def children(self, path: str) -> tuple[str, ...]:
        try:
            names: list[str] = await self._ask(ask.children(self.place(path)))
        except NoNodeError:
            return ()
        if path == ROOT:
            names = [name for name in names if name not in (_SYSTEM, COUNTERS[1:])]
        names.sort()
        return tuple(names)

    async def count_children(self, path: str) -> int:
        """As the node's own state has it; the names are not asked for."""
        if path == ROOT:
            return len(await self.children(ROOT))
        node: Node | None = await self._ask(ask.look(self.place(path)))
        return 0 if node is None else node.children

    async def sync(self, path: str) -> None:
        await self._ask(ask.sync(self.place(path)))

    async def put(self, path: str, value: bytes, expect: int, ephemeral: bool) -> Node:
        if expect >= 0:
            return await self._replace(path, value, expect)
        for _ in range(_TRIES_MAX):
            try:
                if expect == ANY_VERSION:
                    return await self._set(path, value, ask.ANY)
                return await self._create(path, value, ephemeral)
            except NoNodeError:
                made = await self._grow(path, value, ephemeral)
                if made is not None:
                    return made
            except NodeExistsError:
                converted = await self._convert(path, value, ephemeral)
                if converted is not None:
                    return converted
        raise StoreUnavailable(f"{path} kept coming and going")

    async def _replace(self, path: str, value: bytes, expect: int) -> Node:
        try:
            return await self._set(path, value, expect)
        except NoNodeError:
            raise VersionConflict(f"Version of {path} is {ABSENT}, expected {expect}") from None
        except BadVersionError:
            raise VersionConflict(f"Version of {path} is not {expect}") from None

    async def _set(self, path: str, value: bytes, version: int) -> Node:
        node: Node = await self._ask(ask.set_value(self.place(path), value, version))
        return node

    async def _create(self, path: str, value: bytes, ephemeral: bool) -> Node:
        node = self.place(path)
        if value or ephemeral:
            try:
                return (await self._ask(ask.create(node, value, ephemeral=ephemeral))).node  # type: ignore[no-any-return]
            except NoChildrenForEphemeralsError:
                raise _below_ephemeral(path) from None
        own_events = OwnEvents(frozenset({(ask.CHANGED, node)}), node)
        return _last_node(await self._transact(path, _creation(node, value, ephemeral), own_events))

    async def _transact(
        self, path: str, requests: Sequence[Request], own_events: OwnEvents
    ) -> list[Any]:
        outcomes: list[Any] = await self._ask(ask.multi(requests), own_events)
        for outcome in outcomes:
            if isinstance(outcome, NoChildrenForEphemeralsError):
                raise _below_ephemeral(path)
            if isinstance(outcome, NoNodeError | NodeExistsError | BadVersionError):
                raise outcome
            if isinstance(outcome, BadArgumentsError):
                raise InvalidPath(f"ZooKeeper refuses the path {path!r}")
        if any(isinstance(outcome, Exception) for outcome in outcomes):
            raise StoreUnavailable(f"ZooKeeper refused to write {path}: {outcomes}")
        return outcomes

    async def _grow(self, path: str, value: bytes, ephemeral: bool) -> Node | None:
        """Create the record with the parents it lacks; None when others changed them meanwhile.

        One caller for each parent goes ahead, the others wait and then find it there.
        """
        parent = parent_of(path)
        growing = self._growing.get(parent)
        if growing is not None:
            await asyncio.wait([growing])
            return None
        self._growing[parent] = asyncio.get_running_loop().create_future()
        try:
            node = self.place(path)
            requests, own_events = await self._plan_growth(path, _creation(node, value, ephemeral))
            return _last_node(await self._transact(path, requests, own_events))
        except (NoNodeError, NodeExistsError):
            return None
        finally:
            self._growing.pop(parent).set_result(None)

    async def _plan_growth(
        self, path: str, creation: Sequence[Request]
    ) -> tuple[list[Request], OwnEvents]:
        above = [each for each in lineage_of(parent_of(path)) if each != ROOT]
        looks = [self._ask(ask.look(self.place(each))) for each in above]
        found: list[Node | None] = await asyncio.gather(*looks)
        missing = [each for each, node in zip(above, found, strict=True) if node is None]
        nodes = [self.place(each) for each in missing]
        events = {(ask.CREATED, node) for node in nodes} | {(ask.CHANGED, self.place(path))}
        grown = tuple(parent_of(each) for each in missing)
        requests = [ask.create(node, b"") for node in reversed(nodes)]
        return [*requests, *creation], OwnEvents(frozenset(events), self.place(path), grown)

    async def _convert(self, path: str, value: bytes, ephemeral: bool) -> Node | None:
        """Make a bare parent a record, or raise VersionConflict; None when it is gone again."""
        node: Node | None = await self._ask(ask.look(self.place(path)))
        if node is None:
            return None
        if not node.is_bare:
            raise VersionConflict(f"Version of {path} is {node.version}, expected {ABSENT}")
        try:
            if not ephemeral:
                return await self._set(path, value, node.version)
            if node.children:
                raise RecordNotEmpty(f"{path} has children, so it cannot be ephemeral")
            await self._prune(path, node)
        except NoNodeError:
            pass
        except BadVersionError:
            raise VersionConflict(f"Another was quicker to create {path}") from None
        return None

    async def put_sequence(
        self, prefix: str, value: bytes, deltas: Sequence[int], ephemeral: bool
    ) -> tuple[str, Node]:
        lock = self._counting.setdefault(prefix, asyncio.Lock())
        try:
            async with lock:
                for _ in range(_TRIES_MAX):
                    made = await self._count(prefix, value, deltas, ephemeral)
                    if made is not None:
                        return made
        finally:
            if not lock.locked():
                self._counting.pop(prefix, None)
        raise StoreUnavailable(f"Others kept being quicker to count up {prefix}")

    async def _count(
        self, prefix: str, value: bytes, deltas: Sequence[int], ephemeral: bool
    ) -> tuple[str, Node] | None:
        counter = f"{COUNTERS}/{quote(prefix, safe='')}"
        found = await self.find(counter)
        present = () if found is None else _parse_numbers(counter, found.value)
        numbers = advance(present, deltas)
        path = format_sequence(prefix, numbers[: len(deltas)])
        text = ",".join(map(str, numbers)).encode()
        if found is None:
            await self.make_bare(COUNTERS)
            counting = ask.create(self.place(counter), text)
        else:
            counting = ask.set_value(self.place(counter), text, found.node.version)
        creation = [counting, *_creation(self.place(path), value, ephemeral)]
        try:
            requests, own_events = await self._plan_growth(path, creation)
            return path, _last_node(await self._transact(path, requests, own_events))
        except (BadVersionError, NodeExistsError, NoNodeError):
            return None

    async def take_number(self, prefix: str) -> int:
        """The next number that the server counts for the nodes beside this one.

        The parent stays when it is empty: a new one would count from 0 again.
        """
        for _ in range(_TRIES_MAX):
            try:
                request = ask.create(self.place(prefix), b"", ephemeral=True, sequential=True)
                made: Created = await self._ask(request)
            except NoNodeError:
                for each in reversed(tuple(lineage_of(parent_of(prefix)))):
                    if each != ROOT:
                        await self.make_bare(each)
                continue
            try:
                await self._ask(ask.delete(made.path, ask.ANY))
            except (NoNodeError, StoreUnavailable):
                pass  # it goes with the session
            return int(made.path.rpartition(self.place(prefix))[2])
        raise StoreUnavailable(f"{prefix} kept losing its parent")

    async def make_bare(self, path: str) -> None:
        try:
            await self._ask(ask.create(self.place(path), b""))
        except NodeExistsError:
            pass

    async def delete(self, path: str, expect: int) -> None:
        if expect == ABSENT:
            raise VersionConflict(f"A record cannot be deleted at version {expect}")
        version = ask.ANY if expect == ANY_VERSION else expect
        try:
            await self._ask(ask.delete(self.place(path), version))
        except NoNodeError:
            raise RecordNotFound(f"No record at {path}") from None
        except NotEmptyError:
            raise RecordNotEmpty(f"{path} has children") from None
        except BadVersionError:
            node: Node | None = await self._ask(ask.look(self.place(path)))
            if node is not None and node.is_bare and node.children:
                raise RecordNotEmpty(f"{path} has children") from None
            raise VersionConflict(f"Version of {path} is not {expect}") from None
        if not self._children.get(self.place(parent_of(path))):
            await self._prune_above(path)

    async def _prune_above(self, path: str) -> None:
        parent = parent_of(path)
        while parent != ROOT:
            place = self.place(parent)
            note = functools.partial(self._note_children, place)
            if not await self._prune(parent, await self._ask(ask.look(place), None, note)):
                return
            parent = parent_of(parent)

    async def _prune(self, path: str, node: Node | None) -> bool:
        """Take a parent away that holds nothing any more; False when it does, or is gone."""
        place = self.place(path)
        if node is None or not node.is_bare or node.children:
            return False
        try:
            await self._ask(ask.delete(place, 0), OwnEvents(frozenset({(ask.DELETED, place)})))
        except (NoNodeError, NotEmptyError, BadVersionError):
            return False
        return True

    async def delete_recursive(self, path: str) -> None:
        for _ in range(_TRIES_MAX):
            found = await self._list_below(path)
            if not found:
                return
            whole = True
            for start in range(0, len(found), _WINDOW):
                deletions = (self._remove(each) for each in found[start : start + _WINDOW])
                whole = all(await asyncio.gather(*deletions)) and whole
            if whole:
                await self._prune_above(path)
                return
        raise RecordNotEmpty(f"Others kept putting records below {path}")

    async def _remove(self, path: str) -> bool:
        """One session's requests are done in order, so children go before what is above them."""
        try:
            await self._ask(ask.delete(self.place(path), ask.ANY))
        except NoNodeError:
            return True
        except NotEmptyError:
            return False
        return True

    async def _list_below(self, path: str) -> list[str]:
        """The path and all below it, the deepest first; nothing when it is missing."""
        if await self._ask(ask.look(self.place(path))) is None:
            return []
        found, level = [path], [path]
        while level:
            below: list[str] = []
            for start in range(0, len(level), _WINDOW):
                window = level[start : start + _WINDOW]
                names = await asyncio.gather(*(self.children(each) for each in window))
                for parent, under in zip(window, names, strict=True):
                    below += [child_of(parent, name) for name in under]
            found += below
            level = below
        found.reverse()
        return found


def _creation(node: str, value: bytes, ephemeral: bool) -> list[Request]:
    requests = [ask.create(node, value, ephemeral=ephemeral)]
    if not value and not ephemeral:
        requests.append(ask.set_value(node, value, 0))
    return requests


def _last_node(outcomes: Sequence[Any]) -> Node:
    last = outcomes[-1]
    node: Node = last if isinstance(last, Node) else last.node
    return node


def _below_ephemeral(path: str) -> VersionConflict:
    return VersionConflict(f"{name_of(parent_of(path))} is ephemeral; nothing goes below it")


def _parse_numbers(path: str, value: bytes) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in value.split(b","))
    except ValueError:
        raise RecordUnreadable(f"{path} does not hold numbers: {value[:64]!r}") from None
