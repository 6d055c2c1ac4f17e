"""What a scalable topic does: as a whole, segment by segment, and why something waits."""

from typing import Any, NotRequired, TypedDict

from magnetar.model.answer.record import TopicPoliciesAnswer
from magnetar.model.answer.topic import TopicStats


class LoadAnswer(TypedDict):
    msgRateIn: float
    bytesRateIn: float
    msgRateOut: float
    bytesRateOut: float


class ReportedLoad(LoadAnswer):
    atMs: int


class MeasuredLoad(LoadAnswer):
    """Now, and as it was last reported."""

    reported: NotRequired[ReportedLoad]


class LagAnswer(TypedDict):
    msgBacklog: int
    lagMessages: int
    isLagEstimated: bool


class SegmentAnswer(LoadAnswer):
    name: str
    state: str
    hashRange: str
    parentIds: list[int]
    childIds: list[int]
    isLoaded: bool
    isMissing: bool
    # Where it is loaded
    msgInCounter: NotRequired[int]
    bytesInCounter: NotRequired[int]
    storageSize: NotRequired[int]
    producerCount: NotRequired[int]
    consumerCount: NotRequired[int]
    # Where it is asked for
    reportedLoad: NotRequired[ReportedLoad]
    subscriptions: NotRequired[dict[str, LagAnswer]]


class SegmentTopicStats(TopicStats):
    """Of the segment, and of the topic behind it."""

    name: str
    state: str
    hashRange: str
    parentIds: list[int]
    childIds: list[int]
    bytesRateIn: float
    bytesRateOut: float
    isLoaded: bool
    isMissing: bool
    producerCount: NotRequired[int]
    consumerCount: NotRequired[int]
    reportedLoad: NotRequired[ReportedLoad]


class GroupMember(TypedDict):
    connected: bool
    segments: list[int]


class GroupAnswer(TypedDict, total=False):
    """A group of CHECKPOINT consumers keeps its place itself: it has no backlog. Without consumers
    there is a backlog alone.
    """

    type: str
    consumerCount: int
    consumers: dict[str, GroupMember]
    waiting: list[str]
    msgBacklog: int
    backlog: dict[str, int]
    lagMessages: int
    isLagEstimated: bool
    lag: dict[str, int]


class ScaleValue(TypedDict):
    value: bool | int | float
    source: str


class ScaleDecisionAnswer(TypedDict):
    atMs: int
    trigger: str
    epoch: int
    activeSegments: int
    consumers: int
    loads: dict[str, LoadAnswer]
    decision: str
    reason: str
    heldBy: list[str]
    explanation: list[str]
    segments: NotRequired[list[int]]
    firstAtMs: NotRequired[int]
    times: NotRequired[int]
    failure: NotRequired[str]


class ScalingAnswer(TypedDict):
    policy: dict[str, ScaleValue]
    lastDecision: NotRequired[ScaleDecisionAnswer | None]


class ScalableTopicStats(TypedDict):
    epoch: int
    totalSegments: int
    activeSegments: int
    sealedSegments: int
    segments: dict[str, SegmentAnswer]
    subscriptions: dict[str, GroupAnswer]
    autoScale: ScalingAnswer
    change: NotRequired[str]
    """What is under way."""


class ScalableExplanation(TypedDict):
    """In sentences."""

    scaling: list[str]
    subscriptions: dict[str, list[str]]


class PastLayoutChange(TypedDict):
    epoch: int
    kind: str
    segmentIds: list[int]
    childIds: list[int]
    atMs: int
    reason: str


class BacklogOutlook(TypedDict):
    msgBacklog: int
    backlogSize: int
    msgRateOut: float
    drainSeconds: NotRequired[float]


class LockedOutClient(TypedDict):
    type: str
    name: str
    topic: str
    address: str
    clientVersion: str
    subscription: NotRequired[str]


class MigrationCheck(TypedDict):
    topic: str
    scalableTopic: str
    partitions: int
    ready: bool
    checks: dict[str, str]
    refusals: list[str]
    newSegments: int
    notes: list[str]
    v4Clients: list[LockedOutClient]
    segments: dict[str, str]
    subscriptions: dict[str, BacklogOutlook]


class ScalablePolicy(TypedDict):
    """What is in force."""

    autoScale: dict[str, ScaleValue]
    topic: TopicPoliciesAnswer


class StoredRange(TypedDict):
    start: int
    end: int


class StoredSegment(TypedDict):
    """Not yet sealed where the time of it is -1."""

    segmentId: int
    hashRange: StoredRange
    state: str
    parentIds: list[int]
    childIds: list[int]
    createdAtEpoch: int
    sealedAtEpoch: int
    createdAtMs: int
    sealedAtMs: int
    entryBucketSplits: list[int]
    sealed: bool
    active: bool
    root: bool
    leaf: bool
    legacy: bool
    legacyTopicName: NotRequired[str]
    magnetarMerges: NotRequired[int]


class StoredOrigin(TypedDict):
    """The regular topic that became scalable."""

    topicName: str
    partitions: int


class StoredScaleHold(TypedDict):
    segments: int
    untilMs: int


class ScalableMetadata(TypedDict):
    """The record of a topic. What other brokers keep there stands beside."""

    epoch: int
    nextSegmentId: int
    segments: dict[str, StoredSegment]
    properties: dict[str, str]
    autoScalePolicy: NotRequired[dict[str, Any]]
    migratedFrom: NotRequired[StoredOrigin]
    magnetarIntent: NotRequired[dict[str, Any]]
    magnetarHistory: NotRequired[list[PastLayoutChange]]
    magnetarScaleHold: NotRequired[StoredScaleHold]
