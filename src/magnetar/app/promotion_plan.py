"""What a promotion carries: the ledgers of a directory, and its records as a cluster keeps them.

Ledgers keep their ids, so that every message keeps its own. Records change where a cluster knows
things otherwise: its name, one topic bucket, a record for every cursor, no ledger that may grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from magnetar.app.ledger_number import PATH as LEDGER_NUMBER
from magnetar.broker.compaction import LEDGER_PROPERTY
from magnetar.broker.resource import CLUSTERS, POLICIES
from magnetar.errors import LedgerNotFound, PromotionRefused
from magnetar.ledger.belonging import LedgerUse, UseKind, is_former_compacted, parse_use
from magnetar.ledger.birth import parse_born, without_list
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerInfo
from magnetar.metadata.backends.zookeeper import RECORD_BYTES_MAX
from magnetar.metadata.store import Record
from magnetar.model.document import decode_json, encode_document
from magnetar.model.log_path import (
    JOURNALS,
    LOGS,
    journal_name,
    parse_managed_name,
    without_bucket,
)
from magnetar.model.name import TopicDomain, encode_local
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import TOPICS
from magnetar.model.stored_log import CursorInfo, LedgerPart
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.model.tenancy import ClusterData
from magnetar.wire.scalable import decode_topic_record, encode_plain_record
from magnetar.wire.schema import decode_locator
from magnetar.wire.storage import Packing, decode_cursor, decode_log, encode_cursor, encode_log

SCHEMAS: Final = "/schemas"
_CARRIED: Final = ("/admin/", "/topics/", f"{JOURNALS}/")
_LEFT: Final = (
    "/magnetar/standalone/",
    "/magnetar/change-events/",
    "/magnetar/bundle-requests/",
    "/magnetar/migration-locks/",
    LEDGER_NUMBER,
    f"{CLUSTERS}/",
    "/loadbalance/",
    "/counters/",
)
"""What a cluster has of its own, or a directory only of itself."""
_TOPIC_DEPTH: Final = 4
_PACKING: Final = Packing("LZ4", 16_384)
_CLUSTER_FIELDS: Final = ("allowedClusters", "replication_clusters", "allowed_clusters")


@dataclass(frozen=True, slots=True)
class CarriedLedger:
    """A ledger that gets the same id in the cluster. `is_former` says that its entries are those of
    a compacted ledger before Pulsar's format.
    """

    info: LedgerInfo
    use: LedgerUse
    is_former: bool = False


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    ledgers: tuple[CarriedLedger, ...]
    records: Mapping[str, bytes]
    """In the order in which they are written: a namespace exists when all it has is there."""
    topics: int
    cursors: int


def find_cursors(records: Mapping[str, Record]) -> Iterator[tuple[str, CursorInfo]]:
    """The records of cursors; their last states may be in ledgers of their own."""
    for path, record in records.items():
        if _depth_of(path) == 1:
            yield path, decode_cursor(record.value)


def plan_promotion(
    records: Mapping[str, Record],
    ledgers: Mapping[int, LedgerInfo],
    cursors: Mapping[str, CursorInfo],
    *,
    cluster: str,
) -> PromotionPlan:
    """`cursors` are the last states by path; `cluster` is the name of where it goes.

    Raise PromotionRefused for what this version does not know how to carry.
    """
    return _Planning(records, ledgers, cursors, cluster).run()


class _Planning:
    def __init__(
        self,
        records: Mapping[str, Record],
        ledgers: Mapping[int, LedgerInfo],
        cursors: Mapping[str, CursorInfo],
        cluster: str,
    ) -> None:
        self._records = records
        self._ledgers = ledgers
        self._cursors = cursors
        self._cluster = cluster
        parents = [path.rpartition("/") for path in records]
        self._former = {name for parent, _, name in parents if parent == CLUSTERS}
        self._carried: dict[int, CarriedLedger] = {}
        self._written: dict[str, bytes] = {}
        self._topics = self._cursor_count = 0

    def run(self) -> PromotionPlan:
        later: dict[str, bytes] = {}
        for path, record in sorted(self._records.items()):
            depth = _depth_of(path)
            if depth == 0:
                self._plan_log(path, record)
            elif depth == 1:
                self._plan_cursor(path, self._cursors[path])
            elif path.startswith(f"{LOGS}/"):
                continue  # the number of buckets, of which a cluster has one
            elif path.startswith(f"{SCHEMAS}/"):
                for entry in decode_locator(record.value):
                    use = LedgerUse(UseKind.SCHEMA, path.removeprefix(f"{SCHEMAS}/"))
                    self._carry(entry.position.ledger_id, use, path)
                self._written[path] = record.value
            elif path.startswith(f"{POLICIES}/"):
                later[path] = self._rename(path, record.value)
            elif path.startswith(f"{TOPICS}/") and path.count("/") == _TOPIC_DEPTH:
                self._written[path] = encode_plain_record(decode_topic_record(record.value))
            elif path.startswith(_LEFT):
                continue
            elif path.startswith(_CARRIED):
                self._written[path] = record.value
            else:
                raise PromotionRefused(
                    f"{path} is not known to this version; it would be lost in the cluster"
                )
        # Namespaces before tenants: a reader that finds a tenant finds all that it has.
        ordered = dict(sorted(later.items(), key=lambda each: -each[0].count("/")))
        ordered[f"{CLUSTERS}/{self._cluster}"] = encode_document(ClusterData())
        written = self._written | ordered
        for path, value in written.items():
            if len(value) > RECORD_BYTES_MAX:
                raise PromotionRefused(
                    f"{path} is a record of {len(value)} bytes; ZooKeeper takes {RECORD_BYTES_MAX}"
                )
        carried = tuple(self._carried[number] for number in sorted(self._carried))
        return PromotionPlan(carried, written, self._topics, self._cursor_count)

    def _plan_log(self, path: str, record: Record) -> None:
        target = without_bucket(path)
        use = LedgerUse(UseKind.LOG, _name_of(target))
        info = decode_log(record.value)
        parts = []
        for part in info.ledgers:
            found = self._find(part.ledger_id, path)
            if found.last >= 0:
                parts.append(_close(part, found, record.stat.modified_ms))
                self._carry(part.ledger_id, use, path)
        kept = replace(info, ledgers=tuple(parts), properties=without_list(info.properties))
        self._written[target] = encode_log(kept, _PACKING)
        self._topics += 1
        start = LedgerSequence().restore(parts).mark_before(EARLIEST)
        for name in parse_born(info.properties):
            if f"{path}/{encode_local(name)}" not in self._records:
                self._plan_cursor(f"{path}/{encode_local(name)}", CursorInfo(-1, start))

    def _plan_cursor(self, path: str, state: CursorInfo) -> None:
        """The record holds the state, as after a clean stop."""
        target = without_bucket(path)
        log, _, name = target.rpartition("/")
        number = state.properties.get(LEDGER_PROPERTY)
        if name == encode_local(COMPACTION_CURSOR) and number is not None:
            self._carry(number, LedgerUse(UseKind.COMPACTED, _name_of(log)), path)
        self._written[target] = encode_cursor(replace(state, ledger_id=-1), _PACKING)
        self._cursor_count += 1

    def _carry(self, number: int, use: LedgerUse, path: str) -> None:
        info = self._find(number, path)
        found = parse_use(info.properties)
        if found is not None and found != use:
            raise PromotionRefused(
                f"{path} names ledger {number}, which was made for {found.owner}"
            )
        self._carried[number] = CarriedLedger(info, use, is_former_compacted(info.properties))

    def _find(self, number: int, path: str) -> LedgerInfo:
        info = self._ledgers.get(number)
        if info is None:
            raise LedgerNotFound(f"{path} names ledger {number}, which is missing")
        return info

    def _rename(self, path: str, value: bytes) -> bytes:
        """The policies of tenants and namespaces, with the name of the new cluster."""
        document: dict[str, Any] = decode_json(value, dict[str, Any])
        for field in _CLUSTER_FIELDS:
            names = document.get(field)
            if isinstance(names, list):
                renamed = [self._cluster if name in self._former else name for name in names]
                document[field] = list(dict.fromkeys(renamed))
        document.pop("numberOfTopicBuckets", None)
        return msgspec.json.encode(document)


def _close(part: LedgerPart, found: LedgerInfo, now_ms: int) -> LedgerPart:
    return replace(
        part,
        entries=found.last + 1,
        size=found.length,
        created_ms=part.created_ms or now_ms,
    )


def _name_of(path: str) -> str:
    """The name of the log whose record is at a path."""
    if path.startswith(f"{JOURNALS}/"):
        return journal_name(path)
    return parse_managed_name(path.removeprefix(f"{LOGS}/")).full


def _depth_of(path: str) -> int:
    """How far below the record of a log a path is: 0 for that record, 1 for a cursor, less for what
    stands above it or elsewhere.
    """
    if path.startswith(f"{JOURNALS}/"):
        kind, *below = path.removeprefix(f"{JOURNALS}/").split("/")
        return len(below) - 1 if kind in ("coordinator", "participant") else -1
    if not path.startswith(f"{LOGS}/"):
        return -1
    parts = without_bucket(path).removeprefix(f"{LOGS}/").split("/")
    is_segment = len(parts) > 2 and parts[2] == TopicDomain.SEGMENT.value
    return len(parts) - (5 if is_segment else 4)
