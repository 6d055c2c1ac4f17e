"""The state of one transaction coordinator, and which step may follow.

A `plan_` raises a refusal or returns the records to be kept; `apply` follows them. A transaction
that is decided stays until every participant has the outcome, and its outcome stays a while longer
for a client that lost the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from magnetar.errors import (
    InvalidTransactionStatus,
    TooManyRequests,
    TransactionNotFound,
)
from magnetar.model.name import parse_stored_topic
from magnetar.model.transaction import (
    Begun,
    CoordinatorRecord,
    Decided,
    Finished,
    Joined,
    Reserved,
    Status,
    Transaction,
    TransactionId,
)
from magnetar.rules.system import check_takes_transactions

RESERVED_AT_ONCE: Final = 1000
"""Numbers that one record reserves. A restart skips those that were not given out."""
ENDED_MAX: Final = 100_000
"""Outcomes that are kept for clients that ask again, however many transactions there are. Topics
need none of them: a transaction is not over before each that it spans has made its outcome durable.
So a topic that has one open which is not known any more was never announced to its clients, and
that it was aborted there changes nothing.
"""

CLIENT: Final = "client"
"""The cause of an outcome that a client asked for."""

LATENCIES_MS: Final = (
    *(10, 20, 50, 100, 500, 1000, 5000, 15000, 30000, 60000),
    *(300000, 1500000, 3000000),
)
"""Bounds by which the time from the begin of transactions to their decision is counted."""


class CoordinatorState:
    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.next_least = 0
        self.reserved = 0
        self.transactions: Final[dict[int, Transaction]] = {}
        """Those that have not ended everywhere."""
        self.ended: Final[dict[int, Finished]] = {}
        """The latest ones that have, oldest first."""
        self.open_by_owner: Final[dict[str, int]] = {}

    # ------------------------------------------------------------------ following records

    def apply(self, record: CoordinatorRecord) -> None:
        match record:
            case Reserved(end):
                self.reserved = max(self.reserved, end)
            case Begun(least, owner, started_ms, timeout_ms):
                id_ = TransactionId(self.number, least)
                self.transactions[least] = Transaction(id_, owner, started_ms, timeout_ms)
                self.open_by_owner[owner] = self.open_by_owner.get(owner, 0) + 1
                self.next_least = max(self.next_least, least + 1)
            case Joined(least, topics, subscriptions):
                known = self.transactions[least]
                self.transactions[least] = replace(
                    known,
                    topics=tuple(dict.fromkeys((*known.topics, *topics))),
                    subscriptions=tuple(dict.fromkeys((*known.subscriptions, *subscriptions))),
                )
            case Decided(least, is_commit, at_ms, cause):
                self.transactions[least] = replace(
                    self.transactions[least],
                    status=Status.COMMITTING if is_commit else Status.ABORTING,
                    decided_ms=at_ms,
                    cause=cause,
                )
            case Finished(least):
                finished = self.transactions.pop(least, None)
                if finished is not None:
                    self._count_out(finished.owner)
                self.ended[least] = record
                if len(self.ended) > ENDED_MAX:
                    del self.ended[next(iter(self.ended))]
            case _:
                assert_never(record)

    def _count_out(self, owner: str) -> None:
        left = self.open_by_owner[owner] - 1
        if left:
            self.open_by_owner[owner] = left
        else:
            del self.open_by_owner[owner]

    def skip_reserved(self) -> None:
        """After a load: numbers that were reserved may have been given out."""
        self.next_least = max(self.next_least, self.reserved)

    def records(self) -> Iterator[CoordinatorRecord]:
        """Records that lead to this state."""
        yield Reserved(self.reserved)
        yield from self.ended.values()
        for each in self.transactions.values():
            least = each.id.least
            yield Begun(least, each.owner, each.started_ms, each.timeout_ms)
            if each.participants:
                yield Joined(least, each.topics, each.subscriptions)
            if each.status is not Status.OPEN:
                yield Decided(least, each.status.is_commit, each.decided_ms, each.cause)

    # ------------------------------------------------------------------ steps

    def plan_begin(
        self, owner: str, timeout_ms: int, *, now_ms: int, open_max: int, open_per_owner_max: int
    ) -> tuple[TransactionId, Sequence[CoordinatorRecord]]:
        """Limits of 0 are none."""
        if open_max and len(self.transactions) >= open_max:
            raise TooManyRequests(
                f"Coordinator {self.number} has {len(self.transactions)} transactions under way;"
                f" at most {open_max} may be"
            )
        held = self.open_by_owner.get(owner, 0)
        if open_per_owner_max and held >= open_per_owner_max:
            whose = f"{owner!r} has" if owner else "Callers without a role have"
            raise TooManyRequests(
                f"{whose} {held} transactions under way at coordinator {self.number};"
                f" at most {open_per_owner_max} may be"
            )
        least = self.next_least
        records: list[CoordinatorRecord] = [Begun(least, owner, now_ms, timeout_ms)]
        if least >= self.reserved:
            records.insert(0, Reserved(least + RESERVED_AT_ONCE))
        return TransactionId(self.number, least), records

    def plan_join(
        self,
        id_: TransactionId,
        topics: Sequence[str],
        subscriptions: Sequence[tuple[str, str]],
        *,
        participants_max: int,
    ) -> Joined | None:
        """None when all of them have joined already."""
        known = self.find(id_)
        self.check_open(id_)
        joined = Joined(
            id_.least,
            tuple(each for each in topics if each not in known.topics),
            tuple(each for each in subscriptions if each not in known.subscriptions),
        )
        if not (joined.topics or joined.subscriptions):
            return None
        for each in (*joined.topics, *(topic for topic, _ in joined.subscriptions)):
            check_takes_transactions(parse_stored_topic(each))
        count = len(known.topics) + len(known.subscriptions)
        count += len(joined.topics) + len(joined.subscriptions)
        if count > participants_max:
            raise TooManyRequests(
                f"Transaction {id_} would span {count} topics and subscriptions;"
                f" at most {participants_max} are allowed"
            )
        return joined

    def plan_end(
        self, id_: TransactionId, *, is_commit: bool, now_ms: int, cause: str = CLIENT
    ) -> Decided | None:
        """None when this was decided before."""
        ended = self.ended.get(id_.least)
        if ended is not None and id_.most == self.number:
            self._check_agrees(id_, ended.is_commit, is_commit)
            return None
        known = self.find(id_)
        if known.status is not Status.OPEN:
            self._check_agrees(id_, known.status.is_commit, is_commit)
            return None
        if is_commit and now_ms >= known.deadline_ms:
            raise InvalidTransactionStatus(
                f"Transaction {id_} is past its time-out of {known.timeout_ms} ms and is aborted"
            )
        return Decided(id_.least, is_commit, now_ms, cause)

    def _check_agrees(self, id_: TransactionId, was_commit: bool, is_commit: bool) -> None:
        if was_commit != is_commit:
            word = "committed" if was_commit else "aborted"
            raise InvalidTransactionStatus(f"Transaction {id_} was {word}")

    def plan_finish(self, id_: TransactionId, *, now_ms: int) -> Finished:
        known = self.find(id_)
        cause = "" if known.cause == CLIENT else known.cause
        return Finished(id_.least, known.status.is_commit, now_ms, cause)

    # ------------------------------------------------------------------ asking

    def find(self, id_: TransactionId) -> Transaction:
        found = self.transactions.get(id_.least) if id_.most == self.number else None
        if found is None:
            raise TransactionNotFound(f"Transaction {id_} is not known to its coordinator")
        return found

    def find_outcome(self, id_: TransactionId) -> bool | None:
        """Whether a transaction was committed; None: it is open. One that is not known, because it
        ended long ago or a crash took it before anything joined it, has nothing left to commit.
        """
        known = self.transactions.get(id_.least)
        if known is not None:
            return None if known.status is Status.OPEN else known.status.is_commit
        ended = self.ended.get(id_.least)
        return ended is not None and ended.is_commit

    def check_open(self, id_: TransactionId) -> None:
        outcome = self.find_outcome(id_)
        if outcome is not None:
            word = "committed" if outcome else "aborted"
            raise InvalidTransactionStatus(f"Transaction {id_} was {word}: nothing can join it")

    def check_owner(self, id_: TransactionId, caller: str, *, is_super_user: bool) -> None:
        """One that another role began is as good as unknown. What has ended has no owner."""
        if id_.least in self.ended and id_.most == self.number:
            return
        owner = self.find(id_).owner
        if owner and owner != caller and not is_super_user:
            raise TransactionNotFound(f"Transaction {id_} is not known to its coordinator")

    @property
    def low_water_mark(self) -> int:
        """Every transaction up to this number has ended everywhere; -1 when none has."""
        return min(self.transactions, default=self.next_least) - 1

    def overdue(self, now_ms: int) -> list[TransactionId]:
        return [
            each.id
            for each in self.transactions.values()
            if each.status is Status.OPEN and each.deadline_ms <= now_ms
        ]
