"""The log behind a topic: positions in it, its ledgers and cursors."""

from typing import NotRequired, TypedDict

from magnetar.model.answer.record import PartitionedMetadata


class MessageIdAnswer(TypedDict):
    ledgerId: int
    entryId: int
    partitionIndex: int
    batchSize: int
    batchIndex: int


class StoredPosition(TypedDict):
    ledgerId: int
    entryId: int


class JobStatus(TypedDict):
    """Of a compaction, or of an offload."""

    status: str
    lastError: str


class BacklogAnalysis(TypedDict):
    entries: int
    messages: int
    markerMessages: int
    filterRejectedEntries: int
    filterAcceptedEntries: int
    filterRescheduledEntries: int
    filterRejectedMessages: int
    filterAcceptedMessages: int
    filterRescheduledMessages: int
    aborted: bool


# As the broker has it in memory
class LedgerStats(TypedDict):
    ledgerId: int
    entries: int
    size: int
    offloaded: bool
    underReplicated: bool


class CursorStats(TypedDict):
    waitingReadOp: bool
    pendingReadOps: int
    messagesConsumedCounter: int
    cursorLedger: int
    cursorLedgerLastEntry: int
    active: bool
    numberOfEntriesSinceFirstNotAckedMessage: int
    totalNonContiguousDeletedMessagesRange: int
    subscriptionHavePendingRead: bool
    subscriptionHavePendingReplayRead: bool
    # Of a topic that keeps messages
    markDeletePosition: NotRequired[str]
    readPosition: NotRequired[str]
    individuallyDeletedMessages: NotRequired[str]
    lastLedgerSwitchTimestamp: NotRequired[str]
    state: NotRequired[str]
    properties: NotRequired[dict[str, int]]


class LogStats(TypedDict):
    entriesAddedCounter: int
    numberOfEntries: int
    totalSize: int
    currentLedgerEntries: int
    currentLedgerSize: int
    waitingCursorsCount: int
    pendingAddEntriesCount: int
    cursors: dict[str, CursorStats]
    # Of a topic that keeps messages
    lastLedgerCreatedTimestamp: NotRequired[str]
    lastConfirmedEntry: NotRequired[str]
    state: NotRequired[str]
    ledgers: NotRequired[list[LedgerStats]]
    schemaLedgers: NotRequired[list[LedgerStats]]
    compactedLedger: NotRequired[LedgerStats]
    properties: NotRequired[dict[str, str]]


class PartitionedLogStats(TypedDict):
    metadata: PartitionedMetadata
    partitions: dict[str, LogStats]


# As the metadata store has it
class StoredRecord(TypedDict):
    version: int
    creationDate: str
    modificationDate: str


class StoredLedger(TypedDict):
    ledgerId: int
    entries: int
    size: int
    timestamp: int
    isOffloaded: bool


class StoredCursor(StoredRecord):
    cursorsLedgerId: int
    markDelete: StoredPosition
    properties: dict[str, int]


class StoredLog(StoredRecord):
    ledgers: list[StoredLedger]
    cursors: NotRequired[dict[str, StoredCursor]]
    terminatedPosition: NotRequired[StoredPosition]
    properties: NotRequired[dict[str, str]]


class StoredTopic(TypedDict):
    """What is kept of the log of a topic, or of those of its partitions."""

    version: int
    creationDate: NotRequired[str]
    modificationDate: NotRequired[str]
    ledgers: NotRequired[list[StoredLedger]]
    cursors: NotRequired[dict[str, StoredCursor]]
    terminatedPosition: NotRequired[StoredPosition]
    properties: NotRequired[dict[str, str]]
    partitions: NotRequired[dict[str, StoredLog]]
