"""Where the processes of a cluster on one machine serve: what `cluster.json` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from magnetar.cli.command import format_rows
from magnetar.errors import MagnetarError
from magnetar.model.document import decode_json
from magnetar.testing.broker import HOST

ZOOKEEPER: Final = "zookeeper"
_STATE: Final = "cluster.json"


class ClusterRefused(MagnetarError):
    """The cluster cannot do what was asked; the sentence says what to do."""


class ClusterPorts(msgspec.Struct, frozen=True):
    """Where the processes of a directory serve. A bookie is known by its address: ports stay."""

    zookeeper: int
    bookies: tuple[int, ...]
    brokers: tuple[tuple[int, int], ...]
    """Of the binary protocol and of the admin service."""

    def __iter__(self) -> Iterator[int]:
        yield self.zookeeper
        yield from self.bookies
        for pair in self.brokers:
            yield from pair


class Entry(msgspec.Struct, frozen=True):
    """One process, as `cluster.json` has it."""

    name: str
    pid: int
    state: str
    log: str


class State(msgspec.Struct, frozen=True):
    pid: int
    """Of `magnetar cluster up`."""
    ports: ClusterPorts
    processes: tuple[Entry, ...]


def plan_ports(
    known: ClusterPorts | None,
    *,
    bookies: int,
    brokers: int,
    first: Mapping[str, int],
    free: list[int],
) -> ClusterPorts:
    """Keep what is known, count on from the first ports that were given, else take free ones."""

    def pick(kind: str, index: int) -> int:
        return first[kind] + index if kind in first else free.pop()

    known_bookies = known.bookies if known else ()
    known_brokers = known.brokers if known else ()
    return ClusterPorts(
        zookeeper=known.zookeeper if known else pick("zookeeper", 0),
        # Each bookie may hold the only copies of something: none is left out.
        bookies=known_bookies
        + tuple(pick("bookie", index) for index in range(len(known_bookies), bookies)),
        brokers=known_brokers[:brokers]
        + tuple(
            (pick("broker", index), pick("web", index))
            for index in range(len(known_brokers), brokers)
        ),
    )


def load_state(data: Path) -> State | None:
    try:
        return decode_json((data / _STATE).read_bytes(), State)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise ClusterRefused(
            f"{data / _STATE} is damaged ({error}): it says where each bookie serves; the ports are"
            f" also in {data}/*/*.conf and zoo.cfg"
        ) from None


def store_state(data: Path, state: State) -> None:
    new = data / f"{_STATE}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=1))
    new.replace(data / _STATE)


def describe_state(state: State) -> dict[str, Any]:
    """Where everything serves, for other programs."""
    by_name = {entry.name: entry for entry in state.processes}

    def entry_of(name: str) -> dict[str, Any]:
        entry = by_name.get(name, Entry(name, 0, "dead", ""))
        return {"name": name, "pid": entry.pid, "state": entry.state, "log": entry.log}

    return {
        "zookeeper": f"{HOST}:{state.ports.zookeeper}",
        "metadata": f"zk://{HOST}:{state.ports.zookeeper}",
        "bookies": [
            {**entry_of(f"bookie-{number}"), "address": f"{HOST}:{port}"}
            for number, port in enumerate(state.ports.bookies, 1)
        ],
        "brokers": [
            {
                **entry_of(f"broker-{number}"),
                "service": f"pulsar://{HOST}:{port}",
                "admin": f"http://{HOST}:{web_port}",
            }
            for number, (port, web_port) in enumerate(state.ports.brokers, 1)
        ],
        "processes": {entry.name: entry.pid for entry in state.processes},
    }


def format_status(state: State) -> str:
    ports = state.ports
    places = {ZOOKEEPER: f"zk://{HOST}:{ports.zookeeper}"}
    places |= {f"bookie-{n}": f"{HOST}:{port}" for n, port in enumerate(ports.bookies, 1)}
    places |= {
        f"broker-{n}": f"pulsar://{HOST}:{port}  http://{HOST}:{web_port}"
        for n, (port, web_port) in enumerate(ports.brokers, 1)
    }
    return format_rows(
        (entry.name, f"{entry.state:8}  pid {entry.pid or '-':<7}  {places[entry.name]}")
        for entry in state.processes
    )
