"""What every regular topic of a cluster says about becoming scalable, asked from many tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from magnetar import Admin, AdminError, AdminUnreachable
from magnetar.errors import InvalidName
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.spark.access import open_admin
from magnetar.spark.job.load_history import Cluster
from magnetar.spark.job.wave import Readiness

CLIENT: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("topic", pa.string()),
        ("address", pa.string()),
        ("version", pa.string()),
        ("subscription", pa.string()),
    ]
)
SUBSCRIPTION: Final = pa.struct(
    [("name", pa.string()), ("backlog", pa.int64()), ("drain_s", pa.float64())]
)
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("namespace", pa.string()),
        ("partitions", pa.int32()),
        ("readiness", pa.string()),
        ("reasons", pa.list_(pa.string())),
        ("clients", pa.list_(CLIENT)),
        ("subscriptions", pa.list_(SUBSCRIPTION)),
        ("backlog", pa.int64()),
        ("drain_s", pa.float64()),
        ("storage_bytes", pa.int64()),
        ("msg_rate_in", pa.float64()),
    ]
)
SPARK_SCHEMA: Final = (
    "topic string, namespace string, partitions int, readiness string, reasons array<string>,"
    " clients array<struct<kind string, name string, topic string, address string,"
    " version string, subscription string>>,"
    " subscriptions array<struct<name string, backlog long, drain_s double>>,"
    " backlog long, drain_s double, storage_bytes long, msg_rate_in double"
)
_TOPICS_PER_TASK: Final = 200


def list_regular(admin: Admin, namespaces: Iterable[str] = ()) -> list[str]:
    """Regular topics of some namespaces or of all; one with partitions is named once."""
    wanted = list(namespaces)
    if not wanted:
        wanted = [each for tenant in admin.tenants.list() for each in admin.namespaces.list(tenant)]
    names: set[str] = set()
    for namespace in wanted:
        names.update(admin.topics.list_partitioned(namespace))
        for each in admin.topics.list(namespace):
            name = parse_topic(each)
            names.add(name.base.full if name.is_partition else name.full)
    return sorted(each for each in names if _is_regular(each))


def _is_regular(name: str) -> bool:
    try:
        return parse_topic(name).domain is TopicDomain.PERSISTENT
    except InvalidName:
        return False


def survey(spark: SparkSession, cluster: Cluster, topics: list[str]) -> DataFrame:
    """One row for each topic."""
    tasks = max(1, min(len(topics), -(-len(topics) // _TOPICS_PER_TASK) * 2))
    names = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    return names.repartition(tasks).mapInArrow(_make_task(cluster), SPARK_SCHEMA)


def _make_task(
    cluster: Cluster,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open_admin(cluster.admin_url, cluster.access) as admin:
            for batch in batches:
                rows = [check_topic(admin, topic) for topic in batch.column(0).to_pylist()]
                yield from pa.Table.from_pylist(rows, schema=SCHEMA).to_batches()

    return check


def check_topic(admin: Admin, topic: str) -> dict[str, Any]:
    name = parse_topic(topic)
    try:
        found = admin.scalable_topics.migration_check(topic)
        stats: Mapping[str, Any] = (
            admin.topics.partitioned_stats(topic)
            if found["partitions"]
            else admin.topics.stats(topic)
        )
    except (AdminError, AdminUnreachable) as failure:
        return {
            "topic": topic,
            "namespace": str(name.namespace),
            "readiness": Readiness.UNKNOWN.value,
            "reasons": [failure.sentence],
            "clients": [],
            "subscriptions": [],
        }
    return format_row(topic, str(name.namespace), found, stats)


def format_row(
    topic: str, namespace: str, found: Mapping[str, Any], stats: Mapping[str, Any]
) -> dict[str, Any]:
    subscriptions = [
        {"name": name, "backlog": each["msgBacklog"], "drain_s": each.get("drainSeconds")}
        for name, each in found["subscriptions"].items()
    ]
    drains = [each["drain_s"] for each in subscriptions]
    return {
        "topic": topic,
        "namespace": namespace,
        "partitions": found["partitions"],
        "readiness": decide_readiness(found).value,
        "reasons": found["refusals"],
        "clients": [
            {
                "kind": each["type"],
                "name": each["name"],
                "topic": each["topic"],
                "address": each["address"],
                "version": each["clientVersion"],
                "subscription": each.get("subscription"),
            }
            for each in found["v4Clients"]
        ],
        "subscriptions": subscriptions,
        "backlog": sum(each["backlog"] for each in subscriptions),
        "drain_s": None if None in drains else max(drains, default=0.0),
        "storage_bytes": stats.get("storageSize", 0),
        "msg_rate_in": float(stats.get("msgRateIn", 0.0)),
    }


def decide_readiness(found: Mapping[str, Any]) -> Readiness:
    """v4 clients make one reason; any other is not theirs."""
    others = len(found["refusals"]) - bool(found["v4Clients"])
    if others > 0:
        return Readiness.BLOCKED
    return Readiness.CLIENTS if found["v4Clients"] else Readiness.READY
