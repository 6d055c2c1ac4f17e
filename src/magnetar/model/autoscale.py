"""How a scalable topic may split and merge by itself: what is set where, and what is in force.

The broker's configuration gives every value. A namespace and a topic override single ones; what
they leave open falls through. An override is kept as the JSON object that was set, so that fields
of other programs survive.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from magnetar.errors import PreconditionFailed
from magnetar.model.policy import Int32, Int64

Override: TypeAlias = Mapping[str, Any]
Rates: TypeAlias = tuple[float, float, float, float]
"""Messages in, bytes in, messages out and bytes out, per second; or a limit for each of them."""


class AutoScaleOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a namespace or a topic sets; a missing field falls through."""

    enabled: bool | None = None
    maxSegments: Int32 | None = None
    minSegments: Int32 | None = None
    maxDagDepth: Int32 | None = None
    splitCooldownSeconds: Int64 | None = None
    mergeCooldownSeconds: Int64 | None = None
    mergeWindowSeconds: Int64 | None = None
    splitMsgRateInThreshold: float | None = None
    splitMsgRateOutThreshold: float | None = None
    splitBytesRateInThreshold: Int64 | None = None
    splitBytesRateOutThreshold: Int64 | None = None
    mergeMsgRateInThreshold: float | None = None
    mergeMsgRateOutThreshold: float | None = None
    mergeBytesRateInThreshold: Int64 | None = None
    mergeBytesRateOutThreshold: Int64 | None = None
    consumersPerSegment: Int32 | None = None


class AutoScalePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Every value, as it is in force; without an override these are Pulsar's defaults."""

    enabled: bool = True
    maxSegments: int = 64
    minSegments: int = 1
    maxDagDepth: int = 10
    splitCooldownSeconds: int = 60
    mergeCooldownSeconds: int = 300
    mergeWindowSeconds: int = 300
    splitMsgRateInThreshold: float = 10_000.0
    splitMsgRateOutThreshold: float = 50_000.0
    splitBytesRateInThreshold: int = 50_000_000
    splitBytesRateOutThreshold: int = 250_000_000
    mergeMsgRateInThreshold: float = 1_000.0
    mergeMsgRateOutThreshold: float = 5_000.0
    mergeBytesRateInThreshold: int = 5_000_000
    mergeBytesRateOutThreshold: int = 25_000_000
    consumersPerSegment: int = 1
    """How many consumers of one subscription a segment is meant to feed; 0: they never split it.

    Pulsar splits as soon as there are more consumers than segments. Where entry buckets let several
    share a segment, or where consumers are mostly idle, a higher number saves segments.
    """

    @property
    def split_above(self) -> Rates:
        """A segment with a rate above its limit is hot."""
        return (
            self.splitMsgRateInThreshold,
            self.splitBytesRateInThreshold,
            self.splitMsgRateOutThreshold,
            self.splitBytesRateOutThreshold,
        )

    @property
    def merge_below(self) -> Rates:
        """A segment with all rates below their limits is cold."""
        return (
            self.mergeMsgRateInThreshold,
            self.mergeBytesRateInThreshold,
            self.mergeMsgRateOutThreshold,
            self.mergeBytesRateOutThreshold,
        )


FIELDS: Final = AutoScalePolicy.__struct_fields__
_DURATIONS: Final = ("splitCooldownSeconds", "mergeCooldownSeconds", "mergeWindowSeconds")
_RATES: Final = ("MsgRateIn", "MsgRateOut", "BytesRateIn", "BytesRateOut")


class PolicySource(StrEnum):
    BROKER = "broker"
    NAMESPACE = "namespace"
    TOPIC = "topic"


def format_override(override: AutoScaleOverride) -> dict[str, Any]:
    """The fields that are set."""
    return {name: value for name in FIELDS if (value := getattr(override, name)) is not None}


def apply_override(policy: AutoScalePolicy, override: Override | None) -> AutoScalePolicy:
    """Field by field; a stored value of the wrong type is refused like an invalid one."""
    known = {name: override[name] for name in FIELDS if _sets(override, name)} if override else {}
    try:
        read = msgspec.convert(known, AutoScaleOverride, strict=False)
    except msgspec.ValidationError as error:
        raise PreconditionFailed(f"Invalid auto split/merge configuration: {error}") from None
    return msgspec.structs.replace(policy, **format_override(read))


def source_of(name: str, namespace: Override | None, topic: Override | None) -> PolicySource:
    """Where the value in force comes from."""
    if _sets(topic, name):
        return PolicySource.TOPIC
    return PolicySource.NAMESPACE if _sets(namespace, name) else PolicySource.BROKER


def check_auto_scale(policy: AutoScalePolicy) -> None:
    """Refuse values that contradict each other."""
    if policy.minSegments < 1:
        raise _invalid("minSegments must be >= 1")
    if policy.maxSegments < policy.minSegments:
        raise _invalid("maxSegments must be >= minSegments")
    if policy.maxDagDepth < 0:
        raise _invalid("maxDagDepth must be >= 0")
    if policy.consumersPerSegment < 0:
        raise _invalid("consumersPerSegment must be >= 0")
    for name in _DURATIONS:
        if getattr(policy, name) < 0:
            raise _invalid(f"{name} must be >= 0")
    for rate in _RATES:
        split, merge = f"split{rate}Threshold", f"merge{rate}Threshold"
        above, below = getattr(policy, split), getattr(policy, merge)
        if not above > 0:
            raise _invalid(f"{split} must be > 0")
        if not below >= 0:
            raise _invalid(f"{merge} must be >= 0")
        if not above > below:
            raise _invalid(f"{split} must be > {merge} (hysteresis)")


def _sets(override: Override | None, name: str) -> bool:
    return override is not None and override.get(name) is not None


def _invalid(sentence: str) -> PreconditionFailed:
    return PreconditionFailed(f"Invalid auto split/merge configuration: {sentence}")
