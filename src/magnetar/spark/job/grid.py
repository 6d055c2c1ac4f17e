"""Candidate policies: every combination of the values to try, as far as it can be a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

import msgspec

from magnetar import ConfigurationError
from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import (
    FIELDS,
    AutoScaleOverride,
    AutoScalePolicy,
    apply_override,
    check_auto_scale,
    format_override,
)
from magnetar.model.document import decode_json

SCALE: Final = "scale"
"""Multiplies every limit above which a segment splits or below which two merge."""
MERGE_RATIO: Final = "mergeRatio"
"""Sets every limit of merging to this part of that of splitting."""
POLICIES_MAX: Final = 10_000
DEFAULT_GRID: Final[Mapping[str, Sequence[float]]] = {
    SCALE: (0.25, 0.5, 1, 2, 4),
    MERGE_RATIO: (0.05, 0.1, 0.2, 0.4),
    "mergeWindowSeconds": (60, 300, 900, 1800, 3600),
}
_LIMITS: Final = ("MsgRateInThreshold", "MsgRateOutThreshold")
_BYTE_LIMITS: Final = ("BytesRateInThreshold", "BytesRateOutThreshold")


def parse_grid(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Each text is NAME=VALUE,VALUE…; a name is a policy's field, `scale` or `mergeRatio`."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        if name not in (*FIELDS, SCALE, MERGE_RATIO) or not separator:
            known = ", ".join((SCALE, MERGE_RATIO, *FIELDS))
            raise ConfigurationError(f"{text!r} is not NAME=VALUE,VALUE…; names are {known}")
        if name in grid:
            raise ConfigurationError(f"{name} is given twice")
        grid[name] = tuple(_parse(name, value) for value in values.split(","))
    return grid


def _parse(name: str, text: str) -> Any:
    try:
        if name in (SCALE, MERGE_RATIO):
            return msgspec.convert(text.strip(), float, strict=False)
        override = msgspec.convert({name: text.strip()}, AutoScaleOverride, strict=False)
    except msgspec.ValidationError:
        raise ConfigurationError(f"{text!r} is no value of {name}") from None
    return getattr(override, name)


def parse_policy(text: str) -> AutoScalePolicy:
    """A policy in force, or the part of one that was set, as JSON."""
    try:
        override = decode_json(text, AutoScaleOverride)
        policy = apply_override(AutoScalePolicy(), format_override(override))
        check_auto_scale(policy)
    except (msgspec.DecodeError, PreconditionFailed) as error:
        raise ConfigurationError(f"Not an auto-scale policy: {error}") from None
    return policy


def plan_policies(
    base: AutoScalePolicy, grid: Mapping[str, Sequence[Any]]
) -> tuple[list[AutoScalePolicy], int]:
    """The base first, then every other combination; and how many contradict themselves."""
    count = 1
    for values in grid.values():
        count *= len(values)
    if count > POLICIES_MAX:
        raise ConfigurationError(
            f"The grid has {count:,} combinations; {POLICIES_MAX:,} are the most"
        )
    found, refused = {base: None}, 0
    for values in product(*grid.values()):
        policy = _combine(base, dict(zip(grid, values, strict=True)))
        try:
            check_auto_scale(policy)
        except PreconditionFailed:
            refused += 1
        else:
            found[policy] = None
    return list(found), refused


def _combine(base: AutoScalePolicy, chosen: dict[str, Any]) -> AutoScalePolicy:
    """Factors first, then what is set outright."""
    scale, ratio = chosen.pop(SCALE, 1.0), chosen.pop(MERGE_RATIO, None)
    values: dict[str, Any] = {}
    for name in (*_LIMITS, *_BYTE_LIMITS):
        kind = int if name in _BYTE_LIMITS else float
        above, below = getattr(base, f"split{name}"), getattr(base, f"merge{name}")
        values[f"split{name}"] = kind(above * scale)
        values[f"merge{name}"] = kind(above * scale * ratio if ratio is not None else below * scale)
    return msgspec.structs.replace(base, **values | chosen)


def format_policy(policy: AutoScalePolicy) -> dict[str, Any]:
    """As the admin commands take it."""
    return {name: getattr(policy, name) for name in FIELDS}
