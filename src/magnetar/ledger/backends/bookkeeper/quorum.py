"""Which bookies have which entry, what is durable by their answers, and what a recovery may
conclude from them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final

from magnetar.ledger.backends.bookkeeper.frame import MISSING, Code

_NONE: Final = -1


def members_of(entry: int, ensemble: int, write_quorum: int) -> list[int]:
    """The places in the ensemble whose bookies get an entry."""
    return [(entry + each) % ensemble for each in range(write_quorum)]


def next_entry(member: int, entry: int, ensemble: int, write_quorum: int) -> int:
    """The first entry from this one on that the member gets."""
    ahead = (member - entry) % ensemble
    return entry if ahead < write_quorum else entry + ahead - write_quorum + 1


class AckQuorum:
    """Counts the answers of an ensemble.

    An answer counts once its bookie has answered everything before it, so one number for each
    member tells all, and an entry is confirmed when those before it are and enough members have
    passed it.
    """

    def __init__(self, ensemble: int, write_quorum: int, ack_quorum: int, *, first: int) -> None:
        self.confirmed = first - 1
        """The last entry that is durable, as everything before it is."""
        self._ensemble = ensemble
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._passed = [next_entry(each, first, ensemble, write_quorum) for each in range(ensemble)]
        """For each member the first of its entries that it has not answered."""
        self._early: list[set[int]] = [set() for _ in range(ensemble)]

    def acknowledge(self, member: int, entry: int) -> None:
        due = self._passed[member]
        if entry < due:
            return
        early = self._early[member]
        if entry > due:
            early.add(entry)
            return
        ensemble, write_quorum = self._ensemble, self._write_quorum
        due += 1
        if write_quorum < ensemble:
            due = next_entry(member, due, ensemble, write_quorum)
        while early and due in early:
            early.discard(due)
            due = next_entry(member, due + 1, ensemble, write_quorum)
        self._passed[member] = due

    def confirm(self, last: int) -> bool:
        """Move `confirmed` on, at most to `last`; tell whether it moved."""
        before = self.confirmed
        if self._write_quorum == self._ensemble:
            by_rank = sorted(self._passed, reverse=True)
            self.confirmed = max(before, min(last, by_rank[self._ack_quorum - 1] - 1))
            return self.confirmed > before
        while self.confirmed < last and self._is_durable(self.confirmed + 1):
            self.confirmed += 1
        return self.confirmed > before

    def _is_durable(self, entry: int) -> bool:
        members = members_of(entry, self._ensemble, self._write_quorum)
        return sum(self._passed[each] > entry for each in members) >= self._ack_quorum

    def is_owing(self, member: int, last: int) -> bool:
        """Whether the member has not answered all of its entries up to `last`."""
        return self._passed[member] <= last

    def replace(self, member: int) -> int:
        """Another bookie takes the place of this member: nothing that is not confirmed is on it.
        Return the first entry that it gets.
        """
        first = next_entry(member, self.confirmed + 1, self._ensemble, self._write_quorum)
        self._passed[member] = first
        self._early[member].clear()
        return first


def is_viable(ensemble: int, write_quorum: int, ack_quorum: int, lost: Collection[int]) -> bool:
    """Whether every entry still finds its ack quorum without the lost members."""
    return all(
        sum(each not in lost for each in members_of(entry, ensemble, write_quorum)) >= ack_quorum
        for entry in range(ensemble)
    )


def is_covered(
    ensemble: int, write_quorum: int, ack_quorum: int, answered: Collection[int]
) -> bool:
    """Whether so many members are fenced that no entry can find an ack quorum among the others, so
    that what these say of the end is all there can be.
    """
    return all(
        sum(each not in answered for each in members_of(entry, ensemble, write_quorum)) < ack_quorum
        for entry in range(ensemble)
    )


class Presence(Enum):
    """What is known of an entry that may have been written."""

    PRESENT = "present"
    ABSENT = "absent"
    OPEN = "open"
    UNDECIDED = "undecided"


def judge_entry(
    answers: Mapping[int, int | None], members: Sequence[int], ack_quorum: int
) -> Presence:
    """What the answers of fenced members mean: a code, None for one that failed or lied.

    An entry on a single bookie may have been acknowledged, so it is kept. It was not when so many
    members know nothing of it that the others are no ack quorum. A member that does not answer is
    no witness of either: with too many of those nothing is decided, and nothing may be sealed.
    """
    codes = [answers[each] for each in members if each in answers]
    if Code.OK in codes:
        return Presence.PRESENT
    if sum(code in MISSING for code in codes) > len(members) - ack_quorum:
        return Presence.ABSENT
    return Presence.OPEN if len(codes) < len(members) else Presence.UNDECIDED
