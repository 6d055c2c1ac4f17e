"""What a topic, its subscriptions and their clients do."""

from typing import NotRequired, TypedDict

from magnetar.model.answer.record import PartitionedMetadata, TopicRow


class PublisherStats(TypedDict):
    accessMode: str
    msgRateIn: float
    msgThroughputIn: float
    averageMsgSize: float
    chunkedMessageRate: float
    producerId: int
    supportsPartialProducer: bool
    producerName: str
    address: str
    connectedSince: str
    clientVersion: str
    metadata: dict[str, str]
    msgDropRate: NotRequired[float]


class DrainingHash(TypedDict):
    hash: int
    unackMsgs: int
    blockedAttempts: int


class TopicConsumerStats(TypedDict):
    msgRateOut: float
    msgThroughputOut: float
    bytesOutCounter: int
    msgOutCounter: int
    msgRateRedeliver: float
    messageAckRate: float
    chunkedMessageRate: float
    consumerName: str
    availablePermits: int
    unackedMessages: int
    avgMessagesPerEntry: int
    blockedConsumerOnUnackedMsgs: bool
    drainingHashesCount: int
    drainingHashesClearedTotal: int
    drainingHashesUnackedMessages: int
    address: str
    connectedSince: str
    clientVersion: str
    lastAckedTimestamp: int
    lastConsumedTimestamp: int
    firstMessagesSentTimestamp: int
    lastConsumedFlowTimestamp: int
    firstConsumedFlowTimestamp: int
    metadata: dict[str, str]
    lastAckedTime: str
    lastConsumedTime: str
    # Of a Key_Shared subscription; of a partition alone, not of all together
    keyHashRangeArrays: NotRequired[list[list[int]]]
    drainingHashes: NotRequired[list[DrainingHash]]


class SubscriptionStats(TypedDict):
    msgRateOut: float
    msgThroughputOut: float
    bytesOutCounter: int
    msgOutCounter: int
    msgRateRedeliver: float
    messageAckRate: float
    chunkedMessageRate: float
    msgBacklog: int
    backlogSize: int
    earliestMsgPublishTimeInBacklog: int
    msgBacklogNoDelayed: int
    blockedSubscriptionOnUnackedMsgs: bool
    msgDelayed: int
    msgInReplay: int
    unackedMessages: int
    type: str
    msgRateExpired: float
    msgExpired: int
    totalMsgExpired: int
    lastExpireTimestamp: int
    lastConsumedFlowTimestamp: int
    lastConsumedTimestamp: int
    lastAckedTimestamp: int
    lastMarkDeleteAdvancedTimestamp: int
    consumers: list[TopicConsumerStats]
    isDurable: bool
    isReplicated: bool
    allowOutOfOrderDelivery: bool
    consumersAfterMarkDeletePosition: dict[str, str]
    drainingHashesCount: int
    drainingHashesClearedTotal: int
    drainingHashesUnackedMessages: int
    nonContiguousDeletedMessagesRanges: int
    nonContiguousDeletedMessagesRangesSerializedSize: int
    delayedMessageIndexSizeInBytes: int
    subscriptionProperties: dict[str, str]
    filterProcessedMsgCount: int
    filterAcceptedMsgCount: int
    filterRejectedMsgCount: int
    filterRescheduledMsgCount: int
    dispatchThrottledMsgEventsBySubscriptionLimit: int
    dispatchThrottledBytesEventsBySubscriptionLimit: int
    dispatchThrottledMsgEventsByTopicLimit: int
    dispatchThrottledBytesEventsByTopicLimit: int
    dispatchThrottledMsgEventsByBrokerLimit: int
    dispatchThrottledBytesEventsByBrokerLimit: int
    durable: bool
    replicated: bool
    activeConsumerName: NotRequired[str]
    keySharedMode: NotRequired[str]
    lagMessages: NotRequired[int]
    isLagEstimated: NotRequired[bool]
    msgDropRate: NotRequired[float]


class CompactionStats(TypedDict):
    lastCompactionRemovedEventCount: int
    lastCompactionSucceedTimestamp: int
    lastCompactionFailedTimestamp: int
    lastCompactionDurationTimeInMills: int


class ReplicatorStats(TypedDict):
    """No topic is replicated here."""


class TopicNumbers(TypedDict, total=False):
    """Of a topic, or of all partitions together: nothing of a topic that has none yet."""

    msgRateIn: float
    msgThroughputIn: float
    msgRateOut: float
    msgThroughputOut: float
    bytesInCounter: int
    msgInCounter: int
    systemTopicBytesInCounter: int
    bytesOutCounter: int
    msgOutCounter: int
    bytesOutInternalCounter: int
    averageMsgSize: float
    msgChunkPublished: bool
    storageSize: int
    backlogSize: int
    backlogQuotaLimitSize: int
    backlogQuotaLimitTime: int
    oldestBacklogMessageAgeSeconds: int
    publishRateLimitedTimes: int
    earliestMsgPublishTimeInBacklogs: int
    offloadedStorageSize: int
    lastOffloadLedgerId: int
    lastOffloadSuccessTimeStamp: int
    lastOffloadFailureTimeStamp: int
    ongoingTxnCount: int
    abortedTxnCount: int
    committedTxnCount: int
    publishers: list[PublisherStats]
    waitingPublishers: int
    subscriptions: dict[str, SubscriptionStats]
    replication: dict[str, ReplicatorStats]
    nonContiguousDeletedMessagesRanges: int
    nonContiguousDeletedMessagesRangesSerializedSize: int
    delayedMessageIndexSizeInBytes: int
    compaction: CompactionStats
    topicCreationTimeStamp: int
    lastPublishTimeStamp: int
    oldestBacklogMessageSubscriptionName: str
    topicEpoch: int
    msgDropRate: float


class TopicStats(TopicNumbers):
    ownerBroker: str
    deduplicationStatus: NotRequired[str]


class PartitionedTopicStats(TopicNumbers):
    metadata: PartitionedMetadata
    partitions: dict[str, TopicStats]


class TopicTable(TypedDict):
    """Some of the topics that fit a choice, and how many fit."""

    total: int
    offset: int
    rows: list[TopicRow]
