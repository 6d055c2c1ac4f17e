"""What other policies would have done with the load that was: many topics, many policies at once.

Topics are shared out over tasks; within one, the load of a topic is laid out in columns once and
every policy is replayed over it. The decisions are the controller's own (`rules.scale`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from magnetar import ConfigurationError
from magnetar.model.autoscale import AutoScalePolicy, Rates
from magnetar.spark.job.history import collect_samples, read_samples
from magnetar.spark.job.load import TopicLoad
from magnetar.spark.job.replay import Outcome, Replay, count_steps
from magnetar.spark.job.session import Say

HOUR_MS: Final = 3_600_000
_TASKS_PER_CORE: Final = 16
RESULT_SCHEMA: Final = (
    "topic string, policy int, splits long, merges long, overloaded_hours double,"
    " segment_hours double, flaps long, segments_most int, days double, problem string"
)
_COLUMNS: Final = tuple(part.split()[0] for part in RESULT_SCHEMA.split(","))
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("policy", pa.int32()),
        ("splits", pa.int64()),
        ("merges", pa.int64()),
        ("overloaded_hours", pa.float64()),
        ("segment_hours", pa.float64()),
        ("flaps", pa.int64()),
        ("segments_most", pa.int32()),
        ("days", pa.float64()),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Price:
    """What each thing costs, in hours of one segment."""

    overloaded_hour: float = 10.0
    change: float = 0.1
    flap: float = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every topic."""

    policies: tuple[AutoScalePolicy, ...]
    overload: Rates
    """What a segment can carry; one that carries more is overloaded, whatever a policy says."""
    step_ms: int | None = None
    """Time between two looks of the controller; that between samples unless given."""
    flap_ms: int = HOUR_MS
    """A change that undoes one made less than this before is a flap."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All topics under one policy."""

    number: int
    policy: AutoScalePolicy
    splits: int
    merges: int
    overloaded_hours: float
    segment_hours: float
    flaps: int
    segments_most: int
    topics: int
    days: float
    """Of all topics together."""

    def cost(self, price: Price) -> float:
        return (
            self.segment_hours
            + self.overloaded_hours * price.overloaded_hour
            + (self.splits + self.merges) * price.change
            + self.flaps * price.flap
        )


def replay_topics(samples: DataFrame, question: Question) -> DataFrame:
    """One row for each topic and policy; `samples` as `read_samples` gives them."""
    context = samples.sparkSession.sparkContext
    tasks = context.defaultParallelism * _TASKS_PER_CORE
    return (
        samples.repartition(tasks, "topic")
        .groupBy("topic")
        .applyInArrow(_make_task(question), RESULT_SCHEMA)
    )


def _make_task(question: Question) -> Callable[[pa.Table], pa.Table]:
    def replay_one(table: pa.Table) -> pa.Table:
        topic = table.column("topic")[0].as_py()
        return make_rows(
            topic, TopicLoad(collect_samples(table), step_ms=question.step_ms), question
        )

    return replay_one


def make_rows(topic: str, load: TopicLoad, question: Question) -> pa.Table:
    if not load.is_tiled:
        problem = "the first sample does not tell of every segment"
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"topic": topic, "problem": problem}
        return pa.Table.from_pylist([row], schema=_ARROW)
    outcomes = replay_all(load, question)
    hours = load.step_ms / HOUR_MS
    count = len(outcomes)
    return pa.table(
        [
            pa.array([topic] * count),
            pa.array(range(count), pa.int32()),
            pa.array([each.splits for each in outcomes], pa.int64()),
            pa.array([each.merges for each in outcomes], pa.int64()),
            pa.array([each.overloaded_steps * hours for each in outcomes]),
            pa.array([each.segment_steps * hours for each in outcomes]),
            pa.array([each.flaps for each in outcomes], pa.int64()),
            pa.array([each.segments_most for each in outcomes], pa.int32()),
            pa.array([load.steps * hours / 24] * count),
            pa.nulls(count, pa.string()),
        ],
        schema=_ARROW,
    )


def replay(load: TopicLoad, policy: AutoScalePolicy, question: Question) -> Outcome:
    flap_steps = max(1, question.flap_ms // load.step_ms)
    return Replay(load, policy, overload=question.overload, flap_steps=flap_steps).run()


def replay_all(load: TopicLoad, question: Question) -> list[Outcome]:
    """All policies; those that are alike at this step are replayed once."""
    known: dict[AutoScalePolicy, Outcome] = {}
    outcomes = []
    for policy in question.policies:
        seen = _count_in_steps(policy, load.step_ms)
        if seen not in known:
            known[seen] = replay(load, policy, question)
        outcomes.append(known[seen])
    return outcomes


def _count_in_steps(policy: AutoScalePolicy, step_ms: int) -> AutoScalePolicy:
    """Times as numbers of steps, only to compare policies: all that a time is compared with is."""
    return structs.replace(
        policy,
        splitCooldownSeconds=count_steps(policy.splitCooldownSeconds, step_ms),
        mergeCooldownSeconds=count_steps(policy.mergeCooldownSeconds, step_ms),
        mergeWindowSeconds=count_steps(policy.mergeWindowSeconds, step_ms),
    )


def judge(rows: DataFrame, policies: Sequence[AutoScalePolicy]) -> list[Verdict]:
    """All topics together, by policy."""
    sums = [F.sum(name).alias(name) for name in ("splits", "merges", "overloaded_hours")]
    sums += [F.sum(name).alias(name) for name in ("segment_hours", "flaps", "days")]
    found = (
        rows.where("problem is null")
        .groupBy("policy")
        .agg(*sums, F.max("segments_most").alias("segments_most"), F.count("*").alias("topics"))
        .orderBy("policy")
        .collect()
    )
    return [
        Verdict(
            row["policy"],
            policies[row["policy"]],
            row["splits"],
            row["merges"],
            row["overloaded_hours"],
            row["segment_hours"],
            row["flaps"],
            row["segments_most"],
            row["topics"],
            row["days"],
        )
        for row in found
    ]


def recommend(verdicts: Sequence[Verdict], price: Price) -> Verdict:
    """The cheapest; of equal ones the first, and the one in force is the first of all."""
    if not verdicts:
        raise ConfigurationError("The history has no topic whose layout is known")
    return min(verdicts, key=lambda each: (each.cost(price), each.number))


def what_if(
    spark: SparkSession,
    history: str,
    output: str,
    question: Question,
    *,
    say: Say,
) -> list[Verdict]:
    """Replay every topic, keep the rows as Parquet at `output`, and return the sums."""
    samples = read_samples(spark, history)
    say(f"{len(question.policies)} policies over the history in {history}")
    replay_topics(samples, question).write.mode("overwrite").parquet(output)
    rows = spark.read.parquet(output)
    left_out = rows.where("problem is not null").count()
    if left_out:
        say(f"{left_out} topics are left out: their first sample does not tell of every segment")
    return judge(rows, question.policies)


@dataclass(frozen=True, slots=True)
class Timeline:
    """One topic under some policies, step by step."""

    topic: str
    hours: list[float]
    rate_in_per_s: list[float]
    segments: Mapping[int, list[float]]
    """By policy."""


def find_telling_topic(rows: DataFrame, base: int, chosen: int, price: Price) -> str:
    """The topic for which the choice matters most."""
    cost = (
        F.col("segment_hours")
        + F.col("overloaded_hours") * price.overloaded_hour
        + (F.col("splits") + F.col("merges")) * price.change
        + F.col("flaps") * price.flap
    )
    sign = F.when(F.col("policy") == base, 1).otherwise(-1)
    best = (
        rows.where(F.col("policy").isin([base, chosen]))
        .groupBy("topic")
        .agg(F.sum(cost * sign).alias("saved"), F.max("segment_hours").alias("size"))
        .orderBy(F.abs("saved").desc(), F.desc("size"), "topic")
        .first()
    )
    assert best is not None, "there is a verdict, so there is a topic"
    name: str = best["topic"]
    return name


def draw_timeline(
    samples: DataFrame, topic: str, question: Question, numbers: Sequence[int]
) -> Timeline:
    table = samples.where(F.col("topic") == topic).toArrow()
    load = TopicLoad(collect_samples(table), step_ms=question.step_ms)
    segments: dict[int, list[float]] = {}
    for number in numbers:
        outcome = replay(load, question.policies[number], question)
        counts = np.full(load.steps, float(len(load.layout)))
        for change in outcome.changes:
            counts[change.step :] = change.segments
        segments[number] = counts.tolist()
    hours = (np.arange(load.steps) * (load.step_ms / HOUR_MS)).tolist()
    rates: list[float] = load.carried((0, 0xFFFF))[0].tolist()
    return Timeline(topic, hours, rates, segments)
