"""`magnetar spark what-if`: from options to files and a table to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from magnetar import ConfigurationError
from magnetar.model.autoscale import AutoScalePolicy, Rates
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.grid import DEFAULT_GRID, parse_grid, parse_policy, plan_policies
from magnetar.spark.job.history import read_samples
from magnetar.spark.job.session import Say
from magnetar.spark.job.what_if import (
    HOUR_MS,
    Price,
    Question,
    Verdict,
    draw_timeline,
    find_telling_topic,
    recommend,
    what_if,
)
from magnetar.spark.job.what_if_report import describe_difference, write_report

_RATES: Final = ("msgRateIn", "bytesRateIn", "msgRateOut", "bytesRateOut")
_PRICES: Final = {"overloadedHour": "overloaded_hour", "change": "change", "flap": "flap"}


def run(spark: SparkSession, options: Mapping[str, Any], say: Say, tell: Say) -> int:
    base = AutoScalePolicy()
    if options.get("base"):
        base = parse_policy(_read(spark, options["base"]))
    grid = parse_grid(options.get("grid") or ()) or DEFAULT_GRID
    policies, refused = plan_policies(base, grid)
    if refused:
        say(f"{refused} combinations contradict themselves and are left out")
    price = parse_price(options.get("price") or ())
    question = Question(
        tuple(policies),
        parse_overload(options.get("overload") or (), base.split_above),
        options.get("tick"),
        options.get("flap") or HOUR_MS,
    )
    output = find_folder(spark, options["output"])
    result = output.child("result")
    verdicts = what_if(spark, options["history"], result, question, say=say)
    chosen = recommend(verdicts, price)
    samples = read_samples(spark, options["history"])
    topic = find_telling_topic(spark.read.parquet(result), 0, chosen.number, price)
    timeline = draw_timeline(samples, topic, question, sorted({0, chosen.number}))
    files = write_report(output, verdicts, chosen, timeline, price)
    for line in format_summary(verdicts, chosen, price):
        tell(line)
    for what, path in files.items():
        tell(f"{what:<12} {path}")
    return 0


def format_summary(verdicts: list[Verdict], chosen: Verdict, price: Price) -> list[str]:
    base = verdicts[0]
    lines = [f"{base.topics:,} topics, {base.days:,.1f} topic-days, {len(verdicts):,} policies"]
    for name, each in (("in force", base), ("recommended", chosen)):
        lines.append(
            f"{name:<12} {each.splits:,} splits, {each.merges:,} merges, {each.flaps:,} flaps,"
            f" {each.overloaded_hours:,.1f} h overloaded, {each.segment_hours:,.1f} segment-hours,"
            f" cost {each.cost(price):,.1f}"
        )
    if chosen.policy == base.policy:
        return [*lines, "the policy in force is the best of them"]
    return [*lines, f"differs in   {describe_difference(chosen.policy, base.policy)}"]


def parse_overload(texts: Iterable[str], limits: Rates) -> Rates:
    """What a segment can carry, by the name of the rate."""
    found = dict(zip(_RATES, limits, strict=True)) | _parse_numbers(texts, _RATES)
    return found[_RATES[0]], found[_RATES[1]], found[_RATES[2]], found[_RATES[3]]


def parse_price(texts: Iterable[str]) -> Price:
    found = _parse_numbers(texts, _PRICES)
    return replace(Price(), **{_PRICES[name]: value for name, value in found.items()})


def _parse_numbers(texts: Iterable[str], names: Iterable[str]) -> dict[str, float]:
    known, found = list(names), {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            number = msgspec.convert(value, float, strict=False)
        except msgspec.ValidationError:
            number = -1.0
        if name not in known or number < 0:
            raise ConfigurationError(f"{text!r} is not NAME=NUMBER with a name of {known}")
        found[name] = number
    return found


def _read(spark: SparkSession, uri: str) -> str:
    """A file wherever folders may be."""
    folder, slash, name = uri.rpartition("/")
    try:
        text = find_folder(spark, f"{folder}/" if slash else ".").read(name)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{uri} cannot be read: {error}") from None
    if text is None:
        raise ConfigurationError(f"{uri} cannot be read: there is no such file")
    return text
