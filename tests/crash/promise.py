"""What a broker has promised its clients, and whether a log and a delivery keep it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from magnetar.model.position import Position
from tests.crash.link import Delivery

Key = tuple[int, int, int]
"""One message: ledger, entry, index in the batch."""


def keys_of(delivery: Delivery) -> list[Key]:
    return [(*delivery.position, index) for index in delivery.payloads]


@dataclass(slots=True)
class Sent:
    """One entry on its way; a receipt makes it a promise."""

    sequence: int
    payloads: tuple[bytes, ...]
    position: Position | None = None
    """Where it stands; None for a duplicate, whose receipt does not say."""
    is_promised: bool = False


@dataclass(slots=True)
class Writing:
    """What one producer sent. With `once` the topic deduplicates and nothing may be missing after a
    resend; without, what had no receipt at the crash is given up.
    """

    topic: str
    name: str
    once: bool = False
    batch: bool = False
    sent: list[Sent] = field(default_factory=list)
    next_number: int = 0

    def make(self, count: int) -> Sent:
        numbers = range(self.next_number, self.next_number + count)
        sent = Sent(numbers[0], tuple(b"%s/%d" % (self.name.encode(), n) for n in numbers))
        self.next_number += count
        self.sent.append(sent)
        return sent

    @property
    def promised_sequence(self) -> int:
        """The highest sequence id with a receipt, -1 when there is none."""
        ends = [sent.sequence + len(sent.payloads) - 1 for sent in self.sent if sent.is_promised]
        return max(ends, default=-1)

    @property
    def unanswered(self) -> list[Sent]:
        return [sent for sent in self.sent if not sent.is_promised]

    def settle(self, log: Sequence[Delivery]) -> None:
        """Compare with the whole log of the topic: each entry once, in order, where its receipt
        said; of those without receipt a beginning. What is there now must be there for ever.
        """
        prefix = self.name.encode() + b"/"
        mine = [entry for entry in log if entry.payloads[0].startswith(prefix)]
        found = [tuple(entry.payloads.values()) for entry in mine]
        wanted = [sent.payloads for sent in self.sent]
        promised = sum(sent.is_promised for sent in self.sent)
        assert all(sent.is_promised for sent in self.sent[:promised]), "receipts out of order"
        assert found == wanted[: len(found)], _difference(self.name, found, wanted)
        assert len(found) >= promised, _difference(self.name, found, wanted[:promised])
        for sent, entry in zip(self.sent, mine, strict=False):
            assert sent.position in (None, entry.position), (self.name, sent, entry.position)
            sent.position = entry.position
            sent.is_promised = True
        del self.sent[len(found) :]


@dataclass(slots=True)
class Reading:
    """What one subscription acknowledged: asked for, or promised by a receipt."""

    topic: str
    name: str
    kind: int
    cumulative: bool = False
    asked: set[Key] = field(default_factory=set)
    promised: set[Key] = field(default_factory=set)

    def settle(self, delivered: Sequence[Key], durable: Iterable[Key]) -> None:
        """Compare with what a fresh consumer gets: nothing promised, everything never asked for.
        What is acknowledged now must stay so.
        """
        got = set(delivered)
        assert len(got) == len(delivered), f"{self.name}: delivered twice"
        assert list(delivered) == sorted(delivered), f"{self.name}: out of order"
        forgotten = got & self.promised
        assert not forgotten, f"{self.name}: acknowledged with receipt, came again: {forgotten}"
        lost = set(durable) - self.asked - self.promised - got
        assert not lost, f"{self.name}: never acknowledged, did not come: {sorted(lost)[:20]}"
        self.promised |= self.asked - got
        self.asked.clear()


def _difference(name: str, found: Sequence[object], wanted: Sequence[object]) -> str:
    pairs = enumerate(zip(found, wanted, strict=False))
    shared = min(len(found), len(wanted))
    first = next((index for index, (left, right) in pairs if left != right), shared)
    return (
        f"{name}: {len(found)} entries are there, {len(wanted)} expected; from {first} on"
        f" {found[first : first + 5]} instead of {wanted[first : first + 5]}"
    )
