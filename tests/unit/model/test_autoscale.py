from __future__ import annotations

from typing import Any

import msgspec
import pytest

from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import (
    FIELDS,
    AutoScaleOverride,
    AutoScalePolicy,
    PolicySource,
    apply_override,
    check_auto_scale,
    format_override,
    source_of,
)

DEFAULT = AutoScalePolicy()


def test_an_override_changes_only_what_it_sets() -> None:
    changed = apply_override(DEFAULT, {"maxSegments": 8, "enabled": False})
    assert (changed.maxSegments, changed.enabled) == (8, False)
    assert msgspec.structs.replace(changed, maxSegments=64, enabled=True) == DEFAULT
    assert apply_override(DEFAULT, None) == apply_override(DEFAULT, {}) == DEFAULT


def test_fields_nobody_knows_and_nulls_fall_through() -> None:
    assert apply_override(DEFAULT, {"newer": 1, "minSegments": None}) == DEFAULT


def test_a_stored_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="maxSegments"):
        apply_override(DEFAULT, {"maxSegments": "many"})


def test_an_override_and_the_policy_have_the_same_fields() -> None:
    assert AutoScaleOverride.__struct_fields__ == FIELDS
    every = {name: getattr(DEFAULT, name) for name in FIELDS}
    assert format_override(msgspec.convert(every, AutoScaleOverride)) == every
    assert format_override(AutoScaleOverride()) == {}


@pytest.mark.parametrize(
    ("namespace", "topic", "expected"),
    [
        (None, None, PolicySource.BROKER),
        ({"maxSegments": 2}, None, PolicySource.NAMESPACE),
        ({"maxSegments": 2}, {"maxSegments": 3}, PolicySource.TOPIC),
        ({"maxSegments": 2}, {"maxSegments": None, "minSegments": 1}, PolicySource.NAMESPACE),
    ],
)
def test_the_source_of_a_value_is_the_nearest_that_sets_it(
    namespace: Any, topic: Any, expected: PolicySource
) -> None:
    assert source_of("maxSegments", namespace, topic) is expected


def test_the_defaults_do_not_contradict_each_other() -> None:
    check_auto_scale(DEFAULT)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ({"minSegments": 0}, "minSegments must be >= 1"),
        ({"minSegments": 9, "maxSegments": 3}, "maxSegments must be >= minSegments"),
        ({"maxDagDepth": -1}, "maxDagDepth must be >= 0"),
        ({"mergeWindowSeconds": -1}, "mergeWindowSeconds must be >= 0"),
        ({"splitBytesRateOutThreshold": 0}, "splitBytesRateOutThreshold must be > 0"),
        ({"mergeMsgRateInThreshold": -0.5}, "mergeMsgRateInThreshold must be >= 0"),
        (
            {"splitMsgRateInThreshold": 1},
            "splitMsgRateInThreshold must be > mergeMsgRateInThreshold (hysteresis)",
        ),
        (
            {"mergeBytesRateInThreshold": 50_000_000},
            "splitBytesRateInThreshold must be > mergeBytesRateInThreshold (hysteresis)",
        ),
    ],
)
def test_a_policy_that_cannot_be_is_refused(override: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        check_auto_scale(apply_override(DEFAULT, override))
    assert refused.value.sentence == f"Invalid auto split/merge configuration: {sentence}"


def test_a_merge_threshold_of_zero_means_never() -> None:
    check_auto_scale(apply_override(DEFAULT, {"mergeMsgRateInThreshold": 0}))
