"""On which bookies a ledger lies. Pure: chance is an argument, racks are what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

Choose: TypeAlias = Callable[[Sequence[str]], str]
"""Takes one of them by chance."""

DEFAULT_RACK: Final = "/default-rack"


def choose_ensemble(
    preferred: Collection[str],
    others: Collection[str],
    racks: Mapping[str, str],
    *,
    size: int,
    write_quorum: int,
    min_racks: int,
    choose: Choose,
) -> tuple[str, ...] | None:
    """So many distinct bookies, those of each entry on as many racks as can be, at least
    `min_racks` if there are so many; None when there are too few bookies.

    `others` are taken when the preferred ones do not suffice.
    """
    chosen: list[str] = []
    wanted = min(min_racks, write_quorum)
    for place in range(size):
        nearby = chosen[max(0, place - write_quorum + 1) :]
        if place >= size - write_quorum + 1:  # the last ones share entries with the first
            nearby = [*nearby, *chosen[: place - (size - write_quorum)]]
        found = None
        for pool in (preferred, others):
            left = [each for each in sorted(pool) if each not in chosen]
            found = found or _pick(left, nearby, racks, wanted, choose)
        if found is None:
            return None
        chosen.append(found)
    return tuple(chosen)


def choose_replacement(
    preferred: Collection[str],
    others: Collection[str],
    racks: Mapping[str, str],
    *,
    ensemble: Sequence[str],
    member: int,
    min_racks: int,
    write_quorum: int,
    excluded: Collection[str],
    choose: Choose,
) -> str | None:
    """A bookie for the place of one that failed: on a rack that those beside it are not on, best
    the rack of the one that goes.
    """
    size = len(ensemble)
    beside = {
        ensemble[(member + step) % size]
        for step in (*range(1, write_quorum), *range(-write_quorum + 1, 0))
    } - {ensemble[member]}
    taken = {*ensemble, *excluded}
    for pool in (preferred, others):
        left = [each for each in sorted(pool) if each not in taken]
        same = [each for each in left if _rack(each, racks) == _rack(ensemble[member], racks)]
        used = {_rack(each, racks) for each in beside}
        apart = [each for each in same if _rack(each, racks) not in used]
        if apart:
            return choose(apart)
        found = _pick(left, sorted(beside), racks, min(min_racks, write_quorum), choose)
        if found is not None:
            return found
    return None


def count_racks(bookies: Sequence[str], racks: Mapping[str, str], write_quorum: int) -> int:
    """The fewest racks that the bookies of any entry are on."""
    size = len(bookies)
    return min(
        len({_rack(bookies[(entry + step) % size], racks) for step in range(write_quorum)})
        for entry in range(size)
    )


def _pick(
    left: Sequence[str],
    nearby: Sequence[str],
    racks: Mapping[str, str],
    wanted: int,
    choose: Choose,
) -> str | None:
    if not left:
        return None
    used = {_rack(each, racks) for each in nearby}
    if wanted > 1 or len(used) > 1:
        left = [each for each in left if _rack(each, racks) not in used] or left
    return choose(left)


def _rack(bookie: str, racks: Mapping[str, str]) -> str:
    return racks.get(bookie, DEFAULT_RACK)
