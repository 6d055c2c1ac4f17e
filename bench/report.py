"""docs/performance.md and its pictures, from the JSON of bench.peers, bench.growth, bench.cluster
and bench.run.

    python -m bench.report RESULT.json...

Of several results of one bench the one measured last counts, row by row.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.row import OURS, PEERS, ROWS, Row
from magnetar.spark.job.chart import Bar, Curve, draw_bars, draw_curves

Document = Mapping[str, Any]
DOCS = Path(__file__).parent.parent / "docs"
RATIO_MAX = 10.0
"""Where a bar ends; what is longer is told beside it."""
NAMES_WIDTH = 190
PAGE_WIDTH = 140
FAILURE_CHARS = 120
RUN_SIDES = {"ours": "Magnetar", "theirs": "Apache Pulsar"}
OF_A_PART = ("when", "limits", "load1", "notes")
MIB = 1 << 20
UNITS = {
    "rate_per_s": "{:,.0f}/s",
    "p50_ms": "{:.2f} ms",
    "p99_ms": "{:.2f} ms",
    "seconds": "{:.1f} s",
    "start_s": "{:.2f} s",
    "recovery_s": "{:.2f} s",
    "kib_each": "{:.1f} KiB",
    "idle_mib": "{:,.0f} MiB",
    "loaded_mib": "{:,.0f} MiB",
    "disk_bytes": "{:.0f} B",
}
LIMITS = {
    "start_s": "the imports of Python",
    "recovery_s": "the start, and the check of what was not sealed",
    "idle_mib": "the interpreter and its modules",
    "loaded_mib": "entries kept for readers, and what is on its way",
    "disk_bytes": "the payload, which is 100 of them",
    "kib_each": "the objects of a topic and its producer",
    "seconds": "the broker's processor: a ledger and a record of metadata for each",
}


def merge(documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
    """One document for each bench; what holds for a part of the rows is noted with each of them."""
    merged: dict[str, dict[str, Any]] = {}
    for document in sorted(documents, key=lambda each: each.get("when", "")):
        name = document["bench"]
        known = merged.setdefault(name, {})
        inner = "cases" if name == "growth" else "rows"
        part = {key: document[key] for key in OF_A_PART if key in document}
        rows = {row: {**part, **figures} for row, figures in document[inner].items()}
        known.update({**document, inner: known.get(inner, {}) | rows})
    return merged


def name_parts(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Which rows were measured together, when, and how busy the machine was."""
    for when in sorted({row["when"] for row in rows.values()}):
        part = {name: row for name, row in rows.items() if row["when"] == when}
        loads = [load for row in part.values() for load in _loads_of(row)]
        names = ", ".join(f"`{name}`" for name in part)
        yield fill(f"- {when[:16].replace('T', ' ')}, load {show_span(loads)}: {names}.")
        for note in next(iter(part.values())).get("notes", ()):
            yield "  " + fill(f"- {note}")


def _loads_of(row: Mapping[str, Any]) -> list[float]:
    sides = [side for side in row.values() if isinstance(side, dict) and "value" in side]
    return [side["load1"] for side in sides] or [row["load1"]]


def show_span(values: Sequence[float]) -> str:
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least} to {most}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), PAGE_WIDTH, break_on_hyphens=False)


def show(figure: str, side: Mapping[str, Any]) -> str:
    value = side.get("value")
    return "failed" if value is None else UNITS[figure].format(value)


def show_ratio(side: Mapping[str, Any]) -> str:
    ratio = side.get("ratio")
    if ratio is None:
        return "–"
    return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}"


# ---------------------------------------------------------------------- peers


def compare_peers(document: Document) -> Iterator[Sequence[str]]:
    for name, row in document["rows"].items():
        cells = [name, show(row["figure"], row[OURS])]
        for peer in PEERS:
            cells += [show(row["figure"], row[peer]), show_ratio(row[peer])]
        loads = [row[name].get("load1", 0.0) for name in (OURS, *PEERS)]
        yield [*cells, f"{max(loads):.0f}"]


def name_limit(row: Row, result: Mapping[str, Any]) -> tuple[str, str]:
    """What bounds our figure, and how near it is: the share of the limit that is used."""
    ours, limits = result[OURS], result["limits"]
    if "value" not in ours:
        return "–", "–"
    if row.figure in LIMITS:
        return LIMITS[row.figure], "–"
    if row.figure.endswith("_ms"):
        probe = limits["sync"][row.figure]
        return f"one fdatasync: {probe:.2f} ms", f"{100 * probe / ours['value']:.0f} %"
    moved = ours["value"] * row.size / MIB
    shares = {
        "bytes to the disk": moved / limits["write"]["mib_per_s"],
        "bytes through the loopback": moved / limits["loopback"]["mib_per_s"],
    }
    if row.measure.startswith("consume") or "queue" in row.measure:
        del shares["bytes to the disk"]
    if "client_cpu_us" in ours:
        used = ours["value"] * ours["client_cpu_us"] / 1e6
        shares[f"client: {ours['client_cpu_us']:.2f} µs a message"] = used
    limit = max(shares, key=lambda name: shares[name])
    return limit, f"{100 * shares[limit]:.0f} %"


def draw_ratios(document: Document, peer: str) -> str:
    bars = [
        Bar(name, min(RATIO_MAX, row[peer]["ratio"]), f"{row[peer]['ratio']:.2f}")
        for name, row in document["rows"].items()
        if "ratio" in row[peer]
    ]
    axis = f"times better than {peer}; below 1 it is worse; bars end at {RATIO_MAX:g}"
    return draw_bars(f"Magnetar beside {peer}", axis, bars, left=NAMES_WIDTH)


def write_peers(document: Document) -> Iterator[str]:
    sides = [side for row in document["rows"].values() for side in row.values()]
    runs = [len(side["runs"]) for side in sides if isinstance(side, dict) and "runs" in side]
    yield "## Beside Kafka and NATS JetStream"
    yield fill(
        f"""`python -m bench.peers` on {document["machine"]["cores"]} cores, medians of
        {show_span(runs)} runs. Ratios above 1 mean that Magnetar is better; those below are bold.
        No row is left out; a contender that did not end a row has failed. Rows of one line were
        measured together, or in the sessions that its notes name; where the machine had other work,
        compare along a row, not down a column."""
    )
    yield "\n".join(name_parts(document["rows"]))
    yield table(["contender", "version and durability"], list(document["settings"].items()))
    heads = ["row", "Magnetar"]
    for peer in PEERS:
        heads += [peer, "ratio"]
    yield table([*heads, "load"], list(compare_peers(document)))
    yield fill(
        """`produce` and `consume` rows: our SDK with a value for each message (`send_many`,
        `receive_many`); `-columns` with Arrow batches, `-each` with a call and a future for each
        message, `-official` the official Pulsar client on our broker. The peers run
        confluent-kafka (lists of messages by `produce_batch`, in `-each` and `-official` rows a
        call and a callback for each) and nats-py; neither has columns.
        [bench](../bench/README.md) says what each row does."""
    )
    failures = [
        f"- {name}, {peer}: `{row[peer]['error'].rpartition(': ')[2][:FAILURE_CHARS]}`"
        for name, row in document["rows"].items()
        for peer in (OURS, *PEERS)
        if "error" in row[peer]
    ]
    if failures:
        yield "What failed, and how it ended:"
        yield "\n".join(failures)
    yield "![Ratios to Kafka with fsync](performance-kafka-sync.svg)"
    yield "![Ratios to NATS with fsync](performance-nats-sync.svg)"
    yield "## What limits each row"
    probes = [row["limits"] for row in document["rows"].values()]
    span = {
        (group, key): show_span([probe[group][key] for probe in probes])
        for group, key in (("write", "mib_per_s"), ("loopback", "mib_per_s"))
    }
    p50s = [probe["sync"]["p50_ms"] for probe in probes]
    yield fill(
        f"""The machine itself, by `python -m bench.probe` before each of these parts: a page is
        synced in {min(p50s):.2f} to {max(p50s):.2f} ms at p50,
        {span["write", "mib_per_s"]} MiB/s are written and synced,
        {span["loopback", "mib_per_s"]} MiB/s go through the loopback. A share is how much of the
        limit our figure uses; for a client it is the share of one core, for a sync it is above
        100 % where a sync of the log takes less than one of the probe, whose file grows."""
    )
    by_name = {row.name: row for row in ROWS}
    rows = [
        [name, show(row["figure"], row[OURS]), *name_limit(by_name[name], row)]
        for name, row in document["rows"].items()
        if name in by_name
    ]
    yield table(["row", "Magnetar", "nearest limit", "used"], rows)


# ---------------------------------------------------------------------- growth


def write_growth(document: Document) -> Iterator[str]:
    yield "## How cost grows"
    others = [name for name, case in document["cases"].items() if not _is_doubled(case)]
    but = f"; for {', '.join(others)} see the sizes in the table" if others else ""
    yield fill(
        f"""`python -m bench.growth --full`: the same at n, 2n and 4n{but}.
        Processor time and memory are the broker's, for one piece. `held` is the longest that its
        event loop did nothing else. `growth` is the time for a piece at the largest size divided by
        that at the smallest: 1 is linear; from n to 4n, 4 would be quadratic."""
    )
    yield "\n".join(name_parts(document["cases"]))
    rows = []
    for name, case in document["cases"].items():
        sizes = list(case["sizes"].items())
        for size, figures in sizes:
            is_last = size == sizes[-1][0]
            rows.append(
                [
                    name,
                    f"{int(size):,}",
                    f"{figures['seconds']:.1f} s",
                    f"{figures['cpu_us_each']:,.0f} µs",
                    f"{figures['kib_each']:.2f} KiB",
                    f"{figures['dispatch_us']:.1f} µs" if "dispatch_us" in figures else "",
                    f"{figures['held_ms']:,} ms" if "held_ms" in figures else "",
                    f"{case['share']:.2f}" if is_last else "",
                ]
            )
    yield table(
        [
            "what",
            "how many",
            "time",
            "processor each",
            "memory each",
            "dispatch",
            "held",
            "growth",
        ],
        rows,
    )
    yield "![Processor time for one piece](performance-growth.svg)"
    yield "Memory of what is idle, at the largest size:"
    idle = [
        [
            name.removesuffix("s"),
            f"{list(document['cases'][name]['sizes'].values())[-1]['kib_each']:.1f} KiB",
        ]
        for name in ("topics", "producers", "consumers", "subscriptions", "connections", "segments")
        if name in document["cases"]
    ]
    yield table(["idle", "memory in the broker"], idle)


def _is_doubled(case: Mapping[str, Any]) -> bool:
    """Whether it was measured at n, 2n and 4n, and at no other size."""
    sizes = [int(size) for size in case["sizes"]]
    return sizes == [sizes[0] * times for times in (1, 2, 4)]


def draw_growth(document: Document) -> str:
    curves = []
    for name, case in document["cases"].items():
        if not _is_doubled(case):
            continue
        values = [figures["cpu_us_each"] for figures in case["sizes"].values()]
        sizes = ", ".join(f"{int(size):,}" for size in case["sizes"])
        curves.append(Curve(f"{name}: µs for one of {sizes}", [values[0], *values]))
    return draw_curves("Processor time for one piece", "times n", (0, 1, 2, 4), curves)


# ---------------------------------------------------------------------- Apache Pulsar


def write_run(document: Document) -> Iterator[str]:
    yield "## Beside Apache Pulsar, one process"
    rows = document["rows"]
    runs = [len(row[side]["runs"]) for row in rows.values() for side in RUN_SIDES]
    yield fill(
        f"""`python -m bench.run` on {document["machine"]["cores"]} cores, medians of
        {show_span(runs)} runs in turn, with the official Python client and, where a row begins with
        `java`, the Java client. Processor time is that of a message, of the broker and then of the
        client, with how many cores it kept busy: a client that fills its core sets the rate,
        whatever the broker could do. Above 1 Magnetar is better; ratios below it are bold."""
    )
    yield "\n".join(name_parts(rows))
    yield table(
        ["contender", "durability"],
        [[name, document["settings"][side]] for side, name in RUN_SIDES.items()],
    )
    cells = []
    for name, row in rows.items():
        ratio = None
        values = [row[side].get("value") for side in RUN_SIDES]
        if all(values):
            ours, theirs = values
            ratio = ours / theirs if row["figure"].endswith("per_s") else theirs / ours
        shown = [show(row["figure"], row[side]) for side in RUN_SIDES]
        costs = [show_cost(row[side], who) for who in ("broker", "client") for side in RUN_SIDES]
        load = max(_loads_of(row))
        cells.append([name, *shown, show_ratio({"ratio": ratio}), *costs, f"{load:.0f}"])
    heads = ["row", "Magnetar", "Apache Pulsar", "ratio"]
    heads += [f"{who}, {side}" for who in ("broker", "client") for side in ("ours", "theirs")]
    yield table([*heads, "load"], cells)


def show_cost(side: Mapping[str, Any], who: str) -> str:
    """Processor time for a message, and the cores that it kept busy, where they were measured."""
    if f"{who}_us" not in side:
        return "–"
    return f"{side[f'{who}_us']:.2f} µs × {side[f'{who}_cores']:.2f}"


# ---------------------------------------------------------------------- a cluster

CLUSTER_UNITS = UNITS | {
    "us_per_entry": "{:.1f} µs",
    "times": "{:.2f} ×",
    "silence_s": "{:.1f} s",
    "silence_ms": "{:.0f} ms",
    "load_s": "{:.2f} s",
}


def write_cluster(document: Document) -> Iterator[str]:
    yield "## Beside Apache Pulsar, on the same bookies"
    runs = max(len(each) for row in document["rows"].values() for each in row["runs"].values())
    yield fill(
        f"""`python -m bench.cluster`, {document["when"][:10]}, on a machine with nothing else to do
        (load {document["load1"]:g} before it began): two brokers of each kind, one ZooKeeper, three
        bookies, two copies of each entry; the official clients, 100 bytes a message; medians of
        {runs} runs, the kinds in turn. Brokers, bookies and clients share
        {document["machine"]["cores"]} cores. Above 1 Magnetar is better; ratios below it
        are bold."""
    )
    yield "\n".join(fill(f"- {note}") for note in document.get("notes", ()))
    rows = []
    for row in document["rows"].values():
        form = CLUSTER_UNITS[row["figure"]]
        cells = [form.format(row[side]) if side in row else "failed" for side in ("ours", "theirs")]
        name = f"{row['row']}, {row['figure'].split('_')[0]}"
        rows.append([name, *cells, show_ratio(row), row["aim"]])
    yield table(["row", "Magnetar", "Apache Pulsar", "ratio", "aim"], rows)


# ---------------------------------------------------------------------- the page


def write_page(benches: Mapping[str, Document]) -> str:
    machine = next((each["machine"] for each in benches.values() if "machine" in each), None)
    parts = [
        "# Performance",
        fill(
            """Written by `python -m bench.report` from the results of the benches; the figures are
            of one machine, in the sessions that are named with each part, and yours will differ.
            Magnetar syncs before it acknowledges, unless a part says otherwise."""
        ),
    ]
    if machine is not None:
        parts.append(
            fill(
                f"""Machine: {machine["cores"]} cores of {machine["processor"]},
                {machine["memory_gib"]} GiB, {machine["system"]}, Python {machine["python"]}."""
            )
        )
    writers = {
        "peers": write_peers,
        "run": write_run,
        "cluster": write_cluster,
        "growth": write_growth,
    }
    for name, write in writers.items():
        if name in benches:
            parts += write(benches[name])
    return "\n\n".join(parts) + "\n"


def draw(benches: Mapping[str, Document]) -> dict[str, str]:
    pictures = {}
    if "peers" in benches:
        for peer in ("kafka-sync", "nats-sync"):
            pictures[f"performance-{peer}.svg"] = draw_ratios(benches["peers"], peer)
    if "growth" in benches:
        pictures["performance-growth.svg"] = draw_growth(benches["growth"])
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where to write (default: docs)")
    options = parser.parse_args()
    benches = merge([json.loads(path.read_text()) for path in options.results])
    (options.docs / "performance.md").write_text(write_page(benches))
    for name, picture in draw(benches).items():
        (options.docs / name).write_text(picture)


if __name__ == "__main__":
    main()
