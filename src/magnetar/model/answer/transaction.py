"""Coordinators of transactions, and what topics and subscriptions keep of them."""

from typing import NotRequired, TypedDict


class CoordinatorOwner(TypedDict):
    id: int
    brokerServiceUrl: str


class CoordinatorStats(TypedDict):
    state: str
    leastSigBits: int
    lowWaterMark: int
    ongoingTxnSize: int
    recoverStartTime: int
    recoverEndTime: int


class JournalLedger(TypedDict):
    ledgerId: int
    entries: int
    size: int


class JournalLog(TypedDict):
    entriesAddedCounter: int
    numberOfEntries: int
    totalSize: int
    lastLedgerCreatedTimestamp: str
    lastConfirmedEntry: str
    state: str
    ledgers: NotRequired[list[JournalLedger]]


class JournalStats(TypedDict):
    managedLedgerName: str
    managedLedgerInternalStats: NotRequired[JournalLog]
    """Absent while nothing is written."""


class CoordinatorLog(TypedDict):
    transactionLogStats: JournalStats


class WrittenStats(TypedDict):
    """What a transaction has written to a topic."""

    aborted: NotRequired[bool]
    startPosition: NotRequired[str]


class PendingAckStats(TypedDict):
    """What a transaction acknowledges on a subscription."""

    cumulativeAckPosition: NotRequired[str]


class TransactionAnswer(TypedDict):
    """Of one that has ended, only the end is known."""

    txnId: str
    status: str
    openTimestamp: NotRequired[int]
    timeoutAt: NotRequired[int]
    owner: NotRequired[str | None]
    producedPartitions: NotRequired[dict[str, WrittenStats]]
    ackedPartitions: NotRequired[dict[str, dict[str, PendingAckStats]]]
    cause: NotRequired[str]
    decidedAt: NotRequired[int]
    endedAt: NotRequired[int]


class PendingAckSums(TypedDict):
    state: str
    ongoingTxnSize: int
    recoverStartTime: int
    recoverEndTime: int
    lowWaterMarks: NotRequired[dict[str, int]]


class BufferStats(PendingAckSums):
    maxReadPosition: str
    lastSnapshotTimestamps: int
    totalAbortedTransactions: int
    snapshotType: str


class BufferLog(TypedDict):
    snapshotType: str
    singleSnapshotSystemTopicInternalStats: JournalStats


class PendingAckLog(TypedDict):
    pendingAckLogStats: JournalStats


class PositionState(TypedDict):
    state: str
