"""Transactions of Apache's brokers that a topic is found with: which of its entries were aborted,
and what was acknowledged in them.

Commits and aborts stand in the log of a regular topic as markers; where a transaction has none, its
coordinator tells. One that is open until a later time has to wait for that: Apache's brokers might
still be given the cluster back and commit it. Ledgers that this kind of broker wrote are passed
over, for its transactions leave no markers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from magnetar.broker.foreign import ForeignTransactions
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
from magnetar.broker.transaction.acknowledgement import commit_acks
from magnetar.errors import ProtocolViolation, ServiceNotReady
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.position import LedgerId, Position
from magnetar.model.transaction import Ended, Hidden, Outcome, Range, TransactionId
from magnetar.rules.foreign import join_ranges, plan_hidden
from magnetar.rules.transaction.pending_ack import PendingAcks
from magnetar.wire.entry import decode_metadata, transaction_of

_ADOPTED: Final = "pulsar.magnetar.adopted"
"""Of a topic's log: the last ledger that was looked through."""
_COMMITTED: Final = 21
"""The marker of a commit; the other one is that of an abort."""
_READ_ENTRIES: Final = 1000
_READ_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Adopted:
    """What has to be hidden, and up to which ledger that is known."""

    hidden: tuple[Hidden, ...]
    last_ledger: int

    def note(self, properties: Mapping[str, str]) -> Mapping[str, str]:
        return {**properties, _ADOPTED: str(self.last_ledger)}


def is_adopted(properties: Mapping[str, str]) -> bool:
    """Whether Apache's brokers have had transactions on a topic."""
    return _ADOPTED in properties


async def adopt(
    topic: PersistentTopic, foreign: ForeignTransactions, now_ms: int
) -> Adopted | None:
    """Acknowledge for good what committed transactions have acknowledged, and find the entries of
    those that were not committed. None: there is nothing to write down. Raise ServiceNotReady
    where one is open.
    """
    if not topic.log.sequence.by_id:
        return None
    for subscription in topic.subscriptions.values():
        await _adopt_acks(topic, subscription, foreign, now_ms)
    outcomes = await foreign.find_outcomes(topic.name)
    if outcomes is None:
        return None
    known = int(topic.log.record.properties.get(_ADOPTED, -1))
    ledgers = [each for each in topic.log.sequence.by_id if each > known]
    if not ledgers:
        return None
    written, marked = await _scan(topic, foreign, ledgers)
    open_until_ms, hidden = plan_hidden(
        written,
        marked,
        outcomes,
        is_committed_unless_told=topic.name.domain is TopicDomain.SEGMENT,
        now_ms=now_ms,
    )
    _check_ended(topic.name, open_until_ms)
    return Adopted(hidden, max(ledgers))


async def _scan(
    topic: PersistentTopic, foreign: ForeignTransactions, ledgers: list[int]
) -> tuple[dict[TransactionId, list[Range]], dict[TransactionId, bool]]:
    """The entries of each transaction, and of those that have a marker whether they committed."""
    written: dict[TransactionId, list[Range]] = {}
    marked: dict[TransactionId, bool] = {}
    for ledger in ledgers:
        if not await foreign.is_theirs(LedgerId(ledger)):
            continue
        position = Position(ledger, 0)
        while position.ledger_id == ledger:
            run = await topic.log.reader.read(position, _READ_ENTRIES, _READ_BYTES)
            if run is None or run.ledger_id != ledger:
                break
            for number, entry in enumerate(run.data, run.first):
                try:
                    id_ = transaction_of(entry)
                except ProtocolViolation:
                    continue
                if id_ is None:
                    continue
                metadata = decode_metadata(entry)
                if metadata.HasField("marker_type"):
                    marked[id_] = metadata.marker_type == _COMMITTED
                else:
                    join_ranges(written.setdefault(id_, []), Position(ledger, number))
            position = run.next_position
    return written, marked


async def _adopt_acks(
    topic: PersistentTopic, subscription: Subscription, foreign: ForeignTransactions, now_ms: int
) -> None:
    found = await foreign.find_acks(topic.name, subscription.name)
    if not found.records:
        return
    pending = PendingAcks()
    for record in found.records:
        if isinstance(record, Ended):
            held = pending.end(record.id)
            if held is not None and record.is_commit:
                commit_acks(topic, subscription, held)
        else:
            pending.replay(record)
    for id_ in tuple(pending.joined):
        outcome = found.outcomes.get(id_, Outcome(False))
        if outcome.open_until_ms > now_ms:
            _check_ended(topic.name, {id_: outcome.open_until_ms})
        held = pending.end(id_)
        if held is not None and outcome.is_commit:
            commit_acks(topic, subscription, held)
    await subscription.cursor.flush()
    await foreign.forget_acks(topic.name, subscription.name, found)


def _check_ended(topic: TopicName, open_until_ms: Mapping[TransactionId, int]) -> None:
    for id_, until_ms in open_until_ms.items():
        until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat(timespec="seconds")
        raise ServiceNotReady(
            f"{topic} is served from {until} on: until then transaction {id_}, which Apache Pulsar"
            " began, may be committed there"
        )
