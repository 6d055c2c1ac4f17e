"""What-if over Spark: every topic, every policy, and a recommendation that can be set."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from magnetar.cli.main import main
from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.spark.job.grid import format_policy, plan_policies
from magnetar.spark.job.history import collect_samples, read_samples
from magnetar.spark.job.load import TopicLoad
from magnetar.spark.job.replay import Replay
from magnetar.spark.job.what_if import Price, Question, recommend, what_if
from magnetar.spark.job.what_if_command import run
from magnetar.testing import MagnetarBroker
from tests.spark.load_shape import write_history

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

GRID = {"scale": (0.5, 1, 2), "mergeRatio": (0.1, 0.4)}


def quiet(line: str) -> None:
    return None


def test_every_row_is_what_the_rules_say_when_asked_at_every_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = write_history(tmp_path / "history", topics=3, days=1)
    policies, _ = plan_policies(AutoScalePolicy(), GRID)
    question = Question(tuple(policies), policies[0].split_above)
    verdicts = what_if(spark, str(history), str(tmp_path / "result"), question, say=quiet)
    rows = pq.read_table(tmp_path / "result").to_pylist()
    assert len(rows) == 3 * len(policies)
    samples = read_samples(spark, str(history)).toArrow()
    changes = 0
    for row in rows:
        own = samples.filter(pc.equal(samples["topic"], row["topic"]))
        load = TopicLoad(collect_samples(own))
        policy = policies[row["policy"]]
        flap_steps = question.flap_ms // load.step_ms
        slow = Replay(load, policy, overload=question.overload, flap_steps=flap_steps).run_slowly()
        assert (row["splits"], row["merges"], row["flaps"]) == (
            slow.splits,
            slow.merges,
            slow.flaps,
        )
        assert row["segment_hours"] == pytest.approx(slow.segment_steps * 300 / 3600)
        assert row["overloaded_hours"] == pytest.approx(slow.overloaded_steps * 300 / 3600)
        changes += slow.splits + slow.merges
    assert changes > 20, "a history in which nothing happens shows nothing"
    assert sum(each.splits + each.merges for each in verdicts) == changes
    assert {each.topics for each in verdicts} == {3}


def test_the_recommended_policy_is_one_that_the_admin_command_sets(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker
) -> None:
    history = write_history(tmp_path / "history", topics=2, days=1)
    told: list[str] = []
    options = {
        "history": str(history),
        "output": str(tmp_path / "out"),
        "grid": ["scale=0.5,1", "mergeRatio=0.2,0.4,1.5"],
        "overload": ["msgRateIn=9000"],
        "base": f"file://{tmp_path}/base.json",
    }
    (tmp_path / "base.json").write_text(json.dumps(format_policy(AutoScalePolicy())))
    assert run(spark, options, quiet, told.append) == 0
    path = tmp_path / "out" / "recommended.json"
    words = ["namespaces", "set-scalable-topic-auto-scale-policy", "public/default"]
    url = ["--admin-url", magnetar_broker.admin_url]
    assert main(["admin", *words, "--file", str(path), *url]) == 0
    with AdminClient(magnetar_broker.admin_url) as admin:
        kept = admin.namespaces.policy("public/default", "scalable-topic-auto-scale-policy")
    recommended = json.loads(path.read_text())
    assert kept == recommended
    assert recommended != format_policy(AutoScalePolicy())
    for picture in ("policies.svg", "topic.svg"):
        ElementTree.fromstring((tmp_path / "out" / picture).read_text())
    assert any(line.startswith("recommended") for line in told)


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_base_that_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "folder").mkdir()
    for name, reason in (("none.json", "there is no such file"), ("folder", "Is a directory")):
        options = {"base": f"{scheme}{tmp_path}/{name}"}
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read: .*{reason}"):
            run(spark, options, quiet, quiet)


def test_a_price_decides_between_segments_and_overload(spark: SparkSession, tmp_path: Path) -> None:
    history = write_history(tmp_path / "history", topics=1, days=1)
    policies, _ = plan_policies(AutoScalePolicy(), {"scale": (0.25, 1, 100)})
    question = Question(tuple(policies), AutoScalePolicy().split_above)
    verdicts = what_if(spark, str(history), str(tmp_path / "result"), question, say=quiet)
    dear = recommend(verdicts, Price(overloaded_hour=1000.0))
    cheap = recommend(verdicts, Price(overloaded_hour=0.0))
    assert dear.overloaded_hours < cheap.overloaded_hours
    assert dear.segment_hours > cheap.segment_hours
    assert cheap.splits == 0


def test_a_table_that_is_no_history_is_named_with_what_it_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(ConfigurationError, match="no load history: it has no column topic, at"):
        read_samples(spark, str(tmp_path / "other"))
