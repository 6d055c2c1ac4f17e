"""The past of a topic as Parquet: what is sealed never changes, and is written once.

Spark's writer puts the files of a segment into place together; the manifest is replaced last. A
crash before that leaves files that the next run replaces, and a manifest that is true. What is in
the files is read back by Spark too, so that any file system of Hadoop will do.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from magnetar import ConfigurationError
from magnetar.spark.job.folder import Folder
from magnetar.spark.job.order_audit import find_generations

FORMAT: Final = 1
DATA: Final = "data"
MANIFEST: Final = "manifest.json"
_END: Final = "9223372036854775807:9223372036854775807"
"""A position after every other: all of a segment."""


class Table:
    """One folder: `data/segment=N/*.parquet`, and `manifest.json`."""

    def __init__(self, spark: SparkSession, place: Folder, topic: str) -> None:
        self._spark = spark
        self.place = place
        self.topic = topic

    def load(self) -> dict[str, Any]:
        text = self.place.read(MANIFEST)
        if text is None:
            return {"format": FORMAT, "topic": self.topic, "segments": {}, "missing": []}
        manifest: dict[str, Any] = json.loads(text)
        if manifest.get("format") != FORMAT or manifest.get("topic") != self.topic:
            raise ConfigurationError(
                f"{self.place.uri} holds {manifest.get('topic')!r} in format"
                f" {manifest.get('format')!r}, not {self.topic!r} in format {FORMAT}"
            )
        return manifest

    def store(self, manifest: Mapping[str, Any]) -> None:
        self.place.write(MANIFEST, json.dumps(manifest, indent=1))

    def write(
        self, messages: DataFrame, segments: Sequence[int]
    ) -> Mapping[int, list[dict[str, Any]]]:
        """Put the files of these segments in place of any that are there; describe them."""
        seen = Observation()
        (
            messages.observe(seen, F.count(F.lit(1)).alias("rows"))
            .sortWithinPartitions(
                "segment", "message_id.ledger", "message_id.entry", "message_id.batch"
            )
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy("segment")
            .parquet(self.place.child(DATA))
        )
        written = seen.get["rows"]
        files = self._describe(segments) if written else {}
        found = sum(each["rows"] for several in files.values() for each in several)
        if found != written:
            raise ConfigurationError(
                f"{written:,} messages were written to {self.place.uri} and {found:,} are there:"
                " it must be a place that all machines of the cluster share"
            )
        return files

    def _describe(self, segments: Sequence[int]) -> Mapping[int, list[dict[str, Any]]]:
        """Files with their rows and the last position in each."""
        if not self.place.has(DATA):
            return {}
        last = F.max(F.struct("message_id.ledger", "message_id.entry"))
        rows = (
            self._spark.read.parquet(self.place.child(DATA))
            .where(F.col("segment").isin(list(segments)))
            .groupBy("segment", "_metadata.file_name", "_metadata.file_size")
            .agg(F.count(F.lit(1)).alias("rows"), last.alias("last"))
            .orderBy("segment", "file_name")
            .collect()
        )
        files: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            files[row["segment"]].append(
                {
                    "path": f"{DATA}/segment={row['segment']}/{row['file_name']}",
                    "rows": row["rows"],
                    "bytes": row["file_size"],
                    "last": f"{row['last']['ledger']}:{row['last']['entry']}",
                }
            )
        return files


class Plan(NamedTuple):
    """What a run does about the segments of a topic."""

    due: list[int]
    """To be written now, parents first."""
    waiting: list[int]
    """Sealed, but more may come into them or into those they came out of."""
    missing: list[int]
    """Gone before they were written."""


def plan_segments(
    manifest: Mapping[str, Any], record: Mapping[str, Any], final: Collection[int]
) -> Plan:
    """`final` are those behind whose visible end nothing will stand: a segment that is sealed may
    have transactions that are open. Its children wait, so that a checkpoint keeps keys in order.
    """
    known = {int(each) for each in manifest["segments"]}
    segments = record["segments"]
    generations = find_generations(segments)
    sealed = [int(each) for each, one in segments.items() if one["state"] == "SEALED"]
    due: list[int] = []
    waiting: list[int] = []
    for each in sorted(set(sealed) - known, key=lambda each: (generations[each], each)):
        is_behind = any(parent in waiting for parent in segments[str(each)]["parentIds"])
        (waiting if is_behind or each not in final else due).append(each)
    there = {int(each) for each in segments} | known
    missing = [each for each in range(record["nextSegmentId"]) if each not in there]
    return Plan(due, waiting, missing)


def format_bound(segments: Sequence[int]) -> str:
    """All of these segments, and nothing of others, as the source takes it for an end."""
    return json.dumps({"positions": {str(each): _END for each in segments}})


def add_segment(
    manifest: Mapping[str, Any],
    segment: int,
    record: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    one = record["segments"][str(segment)]
    entry = {
        "files": list(files),
        "rows": sum(each["rows"] for each in files),
        "hashRange": one["hashRange"],
        "parentIds": one["parentIds"],
        "sealedAtMs": one["sealedAtMs"],
    }
    return {**manifest, "segments": {**manifest["segments"], str(segment): entry}}


def format_checkpoint(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the table has: where a reader of the topic goes on."""
    segments = manifest["segments"]
    ended = sorted(int(each) for each in segments)
    return {
        "positions": {
            str(each): max(_parse(file["last"]) for file in segments[str(each)]["files"])[2]
            for each in ended
            if segments[str(each)]["files"]
        },
        "ended": ended,
        "next": ended[-1] + 1 if ended else 0,
    }


def _parse(last: str) -> tuple[int, int, str]:
    ledger, entry = last.split(":")
    return int(ledger), int(entry), last
