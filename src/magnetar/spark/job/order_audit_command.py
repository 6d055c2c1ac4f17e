"""`magnetar spark order-audit`: exit code 1 when something is lost, repeated or out of order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from magnetar import AdminNotFound
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.spark.access import access_of, open_admin
from magnetar.spark.job.audit import FaultKind
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.order_audit import (
    Counter,
    Findings,
    find_generations,
    order_audit,
    parse_counter,
)
from magnetar.spark.job.session import Say

EXIT_FOUND = 1


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    counter = parse_counter(options["counter"])
    output = None if options.get("output") is None else find_folder(spark, options["output"])
    expected = options.get("expected")
    found, examples = order_audit(
        read_topic(spark, options, counter),
        counter,
        load_generations(options),
        first=options.get("first"),
        expected=None if expected is None else spark.read.parquet(find_folder(spark, expected).uri),
        shown=options["show"],
        output=None if output is None else output.child("fault"),
    )
    for line in format_findings(options["topic"], counter, found, examples):
        tell(line)
    if output is not None:
        output.write("findings.json", json.dumps(asdict(found), indent=1) + "\n")
    return 0 if found.is_clean else EXIT_FOUND


def read_topic(spark: SparkSession, options: Mapping[str, Any], counter: Counter) -> DataFrame:
    reader = (
        spark.read.format("magnetar")
        .option("serviceUrl", options["url"])
        .option("adminUrl", options["admin_url"])
        .option("topic", options["topic"])
        .option("columns", ",".join(counter.columns))
        .option("keyOrder", "none")
        .options(**access_of(options).options)
    )
    return reader.load()


def load_generations(options: Mapping[str, Any]) -> dict[int, int]:
    """Of a regular topic there are none: its partitions stand side by side."""
    name = scalable_name(parse_topic(options["topic"])).full
    with open_admin(options["admin_url"], access_of(options)) as admin:
        try:
            return find_generations(admin.scalable_topics.metadata(name)["segments"])
        except AdminNotFound:
            return {}


def format_findings(
    topic: str, counter: Counter, found: Findings, examples: list[Row]
) -> list[str]:
    what = "producers on segments" if counter.is_sequence else "keys"
    lines = [
        f"{topic}: {found.messages:,} messages, {found.lines:,} {what}:"
        f" {found.lost:,} lost, {found.duplicated:,} duplicated,"
        f" {found.out_of_order:,} out of order"
    ]
    if found.unnumbered:
        lines.append(f"nothing is said of {found.unnumbered:,} messages without number or key")
    lines += [f"  {format_fault(row)}" for row in examples]
    hidden = found.lost + found.duplicated + found.out_of_order - _count(examples)
    return [*lines, f"  and {hidden:,} more"] if hidden > 0 else lines


def _count(examples: list[Row]) -> int:
    return sum(
        row["last"] - row["first"] + 1 if row["kind"] == FaultKind.LOST else 1 for row in examples
    )


def format_fault(row: Row) -> str:
    line = bytes(row["line"]).decode("utf-8", errors="backslashreplace")
    if row["kind"] == FaultKind.LOST:
        numbers = str(row["first"])
        if row["last"] > row["first"]:
            numbers += f" to {row['last']}"
        return f"lost: {numbers} of {line}"
    before = "" if row["before_ledger"] is None else f", after {_format_place(row, 'before_')}"
    return f"{row['kind']}: {row['first']} of {line} at {_format_place(row, '')}{before}"


def _format_place(row: Row, prefix: str) -> str:
    batch = row[f"{prefix}batch"]
    inside = "" if batch is None or batch < 0 else f":{batch}"
    ledger, entry = row[f"{prefix}ledger"], row[f"{prefix}entry"]
    return f"segment {row[f'{prefix}segment']} position {ledger}:{entry}{inside}"
