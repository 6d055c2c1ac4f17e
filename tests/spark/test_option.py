"""Options: what is refused, and in which words."""

from __future__ import annotations

import re

import pytest

from magnetar.spark.access import OPTIONS
from magnetar.spark.option import Bound, Edge, InvalidOption, KeyOrder, parse_moment, parse_source
from magnetar.spark.row import COLUMN_TYPES
from tests.tidy.source import ROOT

BASE = {"serviceUrl": "pulsar://h:6650", "adminUrl": "http://h:8080", "topic": "t"}


def refusal(*, is_stream: bool = False, **given: str) -> str:
    with pytest.raises(InvalidOption) as caught:
        parse_source(BASE | given, is_stream=is_stream)
    return caught.value.sentence


def test_names_may_be_written_in_any_case_and_domain() -> None:
    parsed = parse_source({k.upper(): v for k, v in BASE.items()}, is_stream=False)
    assert parsed.selection.topics == ("public/default/t",)
    assert parsed.start.edge is Edge.EARLIEST and parsed.key_order is KeyOrder.SEGMENT
    assert parse_source(BASE, is_stream=True).start.edge is Edge.LATEST


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"topics": "a,b"}, "topic and topics"),
        ({"startingOffsets": "latest", "startingTime": "5"}, "startingOffsets and startingTime"),
        (
            {"minMessagesPerTrigger": "10", "maxMessagesPerTrigger": "5"},
            "minMessagesPerTrigger is above maxMessagesPerTrigger",
        ),
        ({"hold": "false", "holdName": "x"}, "holdName names the hold that hold=false"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay bounds the wait for minMessagesPerTrigger"),
        ({"propertyFilters": "a=b"}, "propertyFilters choose among the topics of a namespace"),
    ],
)
def test_contradictory_options_are_refused_by_both_names(one: dict[str, str], other: str) -> None:
    assert other in refusal(**one)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keyOrder": "global"}, "keyOrder is segment or none"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger is a number from 1 on"),
        ({"maxBytesPerTrigger": "many"}, "64MB"),
        ({"startingTime": "yesterday"}, "startingTime is a time such as"),
        ({"startingOffsets": "{}"}, "startingOffsets is earliest, latest"),
        (
            {"maxMesagesPerTrigger": "5"},
            "no option maxMesagesPerTrigger; did you mean maxMessagesPerTrigger?",
        ),
        ({"topic": "non-persistent://public/default/x"}, "keeps nothing"),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(
    given: dict[str, str], told: str
) -> None:
    assert told in refusal(**given)


def test_what_is_needed_is_named_with_an_example() -> None:
    with pytest.raises(InvalidOption, match=r'\.option\("serviceUrl", "pulsar://localhost:6650"\)'):
        parse_source({}, is_stream=False)


def test_an_end_is_for_batch_queries() -> None:
    assert "availableNow" in refusal(is_stream=True, endingOffsets="latest")


def test_times_are_utc_unless_they_say_so() -> None:
    assert parse_moment("x", "1970-01-01T00:00:01") == 1000
    assert parse_moment("x", "1970-01-01T01:00:01+01:00") == 1000
    assert parse_moment("x", "1234") == 1234


def test_a_checkpoint_or_json_by_topic_is_a_start() -> None:
    parsed = parse_source(
        BASE | {"startingOffsets": '{"positions": {"0": "1:2:-1:-1"}}'}, is_stream=False
    )
    assert parsed.start.stated == {"positions": {"0": "1:2:-1:-1"}}
    by_topic = '{"topic://public/default/t": {"positions": {}}}'
    parsed = parse_source(BASE | {"startingOffsets": by_topic}, is_stream=False)
    assert parsed.start.of("public/default/t").stated == {"positions": {}}


def test_each_topic_may_have_an_edge_or_a_time_of_its_own() -> None:
    given = {k: v for k, v in BASE.items() if k != "topic"} | {"topics": "a,b,c"}
    stated = '{"a": "latest", "b": {"at": "1970-01-01T00:00:01Z"}}'
    start = parse_source(given | {"startingOffsets": stated}, is_stream=True).start
    assert start.of("public/default/a") == Bound(Edge.LATEST)
    assert start.of("public/default/b") == Bound(at_ms=1000)
    assert start.of("public/default/c").edge is Edge.EARLIEST
    end = parse_source(given | {"endingOffsets": stated}, is_stream=False).end
    assert end.of("public/default/c").edge is Edge.LATEST
    others = '{"a": "earliest", "*": "latest"}'
    start = parse_source(given | {"startingOffsets": others}, is_stream=True).start
    assert start.of("public/default/c").edge is Edge.LATEST


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ('{"t": "newest"}', 'startingOffsets of t is "earliest"'),
        ('{"t": 5}', "startingOffsets of t is"),
        ('{"x": "latest"}', "names public/default/x, which the query does not read"),
    ],
)
def test_a_start_by_topic_that_means_nothing_is_refused(stated: str, told: str) -> None:
    assert told in refusal(startingOffsets=stated)


def test_a_pattern_names_its_namespace() -> None:
    given = {k: v for k, v in BASE.items() if k != "topic"}
    parsed = parse_source(given | {"topicPattern": "public/default/orders-.*"}, is_stream=False)
    assert (parsed.selection.namespace, parsed.selection.pattern) == ("public/default", "orders-.*")
    with pytest.raises(InvalidOption, match="tenant/namespace"):
        parse_source(given | {"topicPattern": "orders"}, is_stream=False)


def find_options() -> set[str]:
    """Those that the code reads."""
    read = r'\boptions\.(?:text|need|flag|number|size|seconds|choice)\(\s*"(\w+)"'
    bounds = r'\bparse_bound\(\s*options,\s*"(\w+)",\s*"(\w+)"'
    sources = (ROOT / "src" / "magnetar" / "spark").glob("*option.py")
    text = "".join(path.read_text() for path in sources)
    both = (name for names in re.findall(bounds, text) for name in names)
    return {*re.findall(read, text), *both, *OPTIONS.values()}


def test_the_guide_explains_every_option() -> None:
    known = find_options()
    text = (ROOT / "docs" / "spark.md").read_text()
    explained = set(re.findall(r"`(\w+)(?:=\w+)?`", text))
    assert len(known) > 40 and known <= explained | {"checkpointLocation"}


KAFKA = """
assign subscribe subscribePattern kafka.bootstrap.servers startingOffsets endingOffsets
startingTimestamp endingTimestamp startingOffsetsByTimestamp endingOffsetsByTimestamp
startingOffsetsByTimestampStrategy failOnDataLoss kafkaConsumer.pollTimeoutMs fetchOffset.numRetries
fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions
maxRecordsPerPartition groupIdPrefix kafka.group.id includeHeaders topic kafka.security.protocol
kafka.ssl.* kafka.sasl.* kafka.* spark.kafka.consumer.cache.* spark.kafka.producer.cache.*
spark.kafka.consumer.fetchedData.cache.* spark.kafka.clusters.*
"""
"""What Spark's connector for Kafka takes as options and settings."""


def test_every_option_of_the_kafka_connector_has_its_place_in_the_guide() -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    table = text.partition("## From the Kafka connector")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    theirs = {name for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    assert set(KAFKA.split()) <= theirs
    ours = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert ours <= find_options() | set(COLUMN_TYPES) | {"earliest", "latest", "lag_of"}
