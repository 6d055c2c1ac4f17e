"""The hash ranges a namespace is cut into."""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from magnetar.errors import BadRequest, PreconditionFailed
from magnetar.model.name import NamespaceName, TopicName, parse_namespace
from magnetar.model.policy import BundlesData

FULL_UPPER: Final = 0xFFFFFFFF
BUNDLES_MAX: Final = 1_000_000
FIRST_BOUNDARY: Final = "0x00000000"
LAST_BOUNDARY: Final = "0xffffffff"
FULL_RANGE: Final = f"{FIRST_BOUNDARY}_{LAST_BOUNDARY}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """One hash range of a namespace, as `0xAAAAAAAA_0xBBBBBBBB`: without its end, unless that is
    the end of all hashes.
    """

    namespace: NamespaceName
    range: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"

    def holds(self, topic: TopicName) -> bool:
        if topic.namespace != self.namespace:
            return False
        first, end = parse_range(self.range)
        return first <= (value := hash_of(topic)) and (value < end or end == FULL_UPPER)


def full_bundle(namespace: NamespaceName) -> Bundle:
    """The whole namespace."""
    return Bundle(namespace, FULL_RANGE)


def parse_bundle(text: str) -> Bundle:
    """Read `tenant/namespace/0xAAAAAAAA_0xBBBBBBBB`; raise InvalidName or BadRequest."""
    name, _, text_range = text.rpartition("/")
    lower, separator, upper = text_range.partition("_")
    if not separator:
        raise BadRequest(f"{text!r} is not a bundle such as public/default/0x00000000_0x40000000")
    bounds = f"{format_boundary(_parse_boundary(lower))}_{format_boundary(_parse_boundary(upper))}"
    return Bundle(parse_namespace(name), bounds)


def format_boundary(value: int) -> str:
    return f"0x{value:08x}"


def plan_boundaries(count: int) -> tuple[str, ...]:
    """Even ranges: the first `count` boundaries are multiples of one step, the last is the end."""
    if not 1 <= count <= BUNDLES_MAX:
        raise PreconditionFailed(
            f"Invalid number of bundles. Number of numBundles has to be in the range of"
            f" (0, {BUNDLES_MAX}]."
        )
    step = 2**32 // count
    return (*(format_boundary(index * step) for index in range(count)), LAST_BOUNDARY)


def make_bundles(boundaries: tuple[str, ...]) -> BundlesData:
    return BundlesData(boundaries=boundaries, numBundles=len(boundaries) - 1)


def plan_bundles(asked: BundlesData | None, count: int) -> BundlesData:
    if asked is None or asked.numBundles <= 0:
        return make_bundles(plan_boundaries(count))
    if asked.boundaries:
        return make_bundles(check_boundaries(asked.boundaries))
    return make_bundles(plan_boundaries(asked.numBundles))


def check_boundaries(boundaries: Sequence[str]) -> tuple[str, ...]:
    """Boundaries a client chose: sorted, without doubles, over the whole range."""
    values = sorted({_parse_boundary(text) for text in boundaries})
    if not values:
        raise BadRequest("Input bundles do not cover the whole hash range: there are none")
    if values[0] != 0 or values[-1] != FULL_UPPER:
        raise BadRequest(
            "Input bundles do not cover the whole hash range."
            f" first:{format_boundary(values[0])}, last:{format_boundary(values[-1])}"
        )
    return tuple(format_boundary(value) for value in values)


def _parse_boundary(text: str) -> int:
    try:
        value = int(text, 16)
    except ValueError:
        raise BadRequest(f"{text!r} is not a hash boundary such as 0x40000000") from None
    if not 0 <= value <= FULL_UPPER:
        raise BadRequest(f"{text!r} is outside 0x00000000 to 0xffffffff")
    return value


def hash_of(topic: TopicName) -> int:
    return zlib.crc32(topic.full.encode())


def bundle_of(topic: TopicName, boundaries: Sequence[str]) -> str:
    """The range that holds a topic, as `0xAAAAAAAA_0xBBBBBBBB`."""
    values = _parse_all(tuple(boundaries))
    index = min(bisect_right(values, hash_of(topic)), len(values) - 1)
    return f"{boundaries[index - 1]}_{boundaries[index]}"


@lru_cache(maxsize=1024)
def _parse_all(boundaries: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(text, 16) for text in boundaries)


def parse_range(text: str) -> tuple[int, int]:
    """The two ends of a range that is known to be one."""
    lower, _, upper = text.partition("_")
    return int(lower, 16), int(upper, 16)


def ranges_of(boundaries: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{lower}_{upper}" for lower, upper in pairwise(boundaries))


def check_range(namespace: NamespaceName, text: str, boundaries: Sequence[str]) -> str:
    """A range a client named must be one of the namespace's."""
    lower, separator, upper = text.partition("_")
    if not separator:
        raise PreconditionFailed(f"Invalid bundle range {text!r}; expected 0x00000000_0x40000000")
    try:
        wanted = (_parse_boundary(lower), _parse_boundary(upper))
    except BadRequest as error:
        raise PreconditionFailed(error.sentence) from None
    values = [int(each, 16) for each in boundaries]
    if wanted[0] not in values[:-1]:
        raise PreconditionFailed(f"Invalid lower boundary for bundle {namespace}/{text}")
    following = values[values.index(wanted[0]) + 1]
    if wanted[1] != following:
        expected = f"{format_boundary(wanted[0])}_{format_boundary(following)}"
        raise PreconditionFailed(
            f"Invalid upper boundary for bundle {namespace}/{text}."
            f" Expected upper boundary of {namespace}/{expected}"
        )
    return f"{format_boundary(wanted[0])}_{format_boundary(wanted[1])}"


def split_range(text: str, boundaries: Sequence[str]) -> tuple[str, ...]:
    """Cut one range in the middle; a range of one hash cannot be cut."""
    return cut_range(text, boundaries, (middle_of(text),))


def middle_of(text: str) -> int:
    lower, upper = parse_range(text)
    return lower + (upper - lower) // 2


def cut_range(text: str, boundaries: Sequence[str], cuts: Collection[int]) -> tuple[str, ...]:
    """Cut one range of a namespace at these hashes, which lie strictly inside it."""
    lower, upper = parse_range(text)
    if not cuts or not all(lower < cut < upper for cut in cuts):
        raise PreconditionFailed(f"The bundle {text} cannot be split further")
    values = sorted({*(int(each, 16) for each in boundaries), *cuts})
    return tuple(format_boundary(value) for value in values)


def plan_cut(text: str, weights: Mapping[int, float]) -> int:
    """Where to cut a range so that both halves carry about the same, given what the topics at each
    hash carry; raise PreconditionFailed with fewer than two of them.
    """
    lower, upper = parse_range(text)
    inside = sorted(each for each in weights if lower <= each <= upper)
    if len(inside) < 2:
        raise PreconditionFailed(f"The bundle {text} has too few topics to be split by them")
    total, carried, best = sum(weights[each] for each in inside), 0.0, (math.inf, 0)
    for index, each in enumerate(inside[:-1]):
        carried += weights[each]
        best = min(best, (abs(total / 2 - carried), index))
    left, right = inside[best[1]], inside[best[1] + 1]
    return left + (right - left + 1) // 2
