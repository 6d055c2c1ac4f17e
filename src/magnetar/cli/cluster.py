"""`magnetar cluster`: a whole cluster on this machine, to try it and to see it fail.

The assembly is the one room above this one, hence its import by name when it is needed.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Final

from magnetar.cli.command import Argument, Options, Verb, call, choose, pairs, switch, word
from magnetar.cli.server import run_app

_FIRST: Final = {
    "zookeeper": Argument("--zookeeper-port", "port of ZooKeeper (a free one)", int),
    "bookie": Argument("--bookie-port", "port of the first bookie; others count on", int),
    "broker": Argument("--port", "port of the first broker; others count on", int),
    "web": Argument("--web-port", "admin port of the first broker; others count on", int),
}


_run: Final = partial(run_app, "cluster")


def _up(options: Options) -> int:
    first = {kind: getattr(options, argument.target) for kind, argument in _FIRST.items()}
    return _run(
        options.data.resolve(),
        brokers=options.brokers,
        bookies=options.bookies,
        first={kind: port for kind, port in first.items() if port is not None},
        overrides=options.set or [],
        as_json=options.json,
        function="run_up",
    )


def _status(options: Options) -> int:
    return _run(options.data.resolve(), as_json=options.json, function="run_status")


def _stop(options: Options) -> int:
    return _run(options.data.resolve(), function="run_stop")


def _start(options: Options) -> int:
    return _run(options.data.resolve(), options.name, function="run_start")


def _signal(name: str, number: signal.Signals, help: str) -> Verb:
    def run(options: Options) -> int:
        return _run(options.data.resolve(), options.name, number, function="run_signal")

    return Verb(name, help, (_NAME, _DATA), run)


_DATA: Final = Argument(
    "--data", "directory of the cluster (./cluster)", Path, Path("cluster"), variable="DIR"
)
_NAME: Final = word("name", "zookeeper, bookie-1, broker-2, …", "broker-2")
_JSON: Final = switch("--json", "print where everything serves as one JSON document")
VERBS: Final = (
    Verb(
        "up",
        "start all on free ports, print where they serve, stop all on Ctrl-C",
        (
            Argument("--brokers", "how many brokers (3)", int, 3),
            Argument("--bookies", "how many bookies (3)", int, 3),
            _DATA,
            _JSON,
            *_FIRST.values(),
            pairs("--set", "a configuration key of the brokers; may be given again"),
        ),
        _up,
    ),
    Verb("status", "what runs, and where", (_DATA, _JSON), _status),
    Verb("stop", "stop all: brokers, then bookies, then ZooKeeper", (_DATA,), _stop),
    _signal("kill", signal.SIGKILL, "end one process at once, as a crash does"),
    _signal("pause", signal.SIGSTOP, "halt one process; its connections stay"),
    _signal("resume", signal.SIGCONT, "let a paused process go on"),
    Verb("start", "start one that has ended again, on its data", (_NAME, _DATA), _start),
)


def run(words: list[str]) -> int:
    return call("magnetar cluster", choose("magnetar cluster", "verb", words, VERBS), words[1:])
