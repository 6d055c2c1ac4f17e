"""The past of a topic as Parquet: what is sealed never changes, and is written once.

Files of a segment are made aside and moved into place together; the manifest is replaced last. A
crash before that leaves files that the next run replaces, and a manifest that is true.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from magnetar.client.error import ConfigurationError
from magnetar.spark.job.order_audit import find_generations

FORMAT: Final = 1
DATA: Final = "data"
_STAGING: Final = "_staging"
_MANIFEST: Final = "manifest.json"
_END: Final = "9223372036854775807:9223372036854775807"
"""A position after every other: all of a segment."""


class Table:
    """One folder: `data/segment=N/*.parquet`, and `manifest.json`."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self.topic = topic
        path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time."""
        with (self.path / "_lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(f"Another job writes to {self.path}") from None
            yield

    def load(self) -> dict[str, Any]:
        try:
            text = (self.path / _MANIFEST).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {"format": FORMAT, "topic": self.topic, "segments": {}, "missing": []}
        manifest: dict[str, Any] = json.loads(text)
        if manifest.get("format") != FORMAT or manifest.get("topic") != self.topic:
            raise ConfigurationError(
                f"{self.path} holds {manifest.get('topic')!r} in format {manifest.get('format')!r},"
                f" not {self.topic!r} in format {FORMAT}"
            )
        return manifest

    def store(self, manifest: Mapping[str, Any]) -> None:
        """Whole or not at all."""
        passing = self.path / f".{_MANIFEST}.new"
        with passing.open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        passing.replace(self.path / _MANIFEST)

    def write_aside(self, messages: DataFrame) -> None:
        """Messages of some segments, each in files of its own and in order."""
        shutil.rmtree(self._staging, ignore_errors=True)
        (
            messages.sortWithinPartitions(
                "segment", "message_id.ledger", "message_id.entry", "message_id.batch"
            )
            .write.partitionBy("segment")
            .parquet(str(self._staging))
        )

    def move_in(self, segment: int) -> list[dict[str, Any]]:
        """Put the files of a segment where they belong, in place of any that are there."""
        made, home = self._staging / f"segment={segment}", self._home(segment)
        shutil.rmtree(home, ignore_errors=True)
        if not made.is_dir():
            return []
        home.parent.mkdir(exist_ok=True)
        made.rename(home)
        return [_describe(each, self.path) for each in sorted(home.glob("*.parquet"))]

    def clear_aside(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)

    @property
    def _staging(self) -> Path:
        return self.path / _STAGING

    def _home(self, segment: int) -> Path:
        return self.path / DATA / f"segment={segment}"


def _describe(path: Path, root: Path) -> dict[str, Any]:
    """A file with its rows and the last position in it."""
    table = pq.read_table(path, columns=["message_id"])
    places = table.column("message_id").combine_chunks()
    ledger = pc.max(places.field("ledger")).as_py()
    here = places.filter(pc.equal(places.field("ledger"), ledger))
    entry = pc.max(here.field("entry")).as_py()
    return {
        "path": path.relative_to(root).as_posix(),
        "rows": table.num_rows,
        "bytes": path.stat().st_size,
        "last": f"{ledger}:{entry}",
    }


def plan_segments(
    manifest: Mapping[str, Any], record: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """Sealed segments that the table lacks, parents first; and those that are gone unseen."""
    known = {int(each) for each in manifest["segments"]}
    segments = record["segments"]
    generations = find_generations(segments)
    sealed = [int(each) for each, one in segments.items() if one["state"] == "SEALED"]
    due = sorted(set(sealed) - known, key=lambda each: (generations[each], each))
    there = {int(each) for each in segments} | known
    return due, [each for each in range(record["nextSegmentId"]) if each not in there]


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
