"""What brokers and bookies show of themselves."""

from typing import Any, NotRequired, TypedDict

from magnetar.model.answer.record import TopicRow


class LoadReport(TypedDict):
    brokerId: str
    webServiceUrl: str
    webServiceUrlTls: NotRequired[str | None]
    pulsarServiceUrl: str
    pulsarServiceUrlTls: NotRequired[str | None]
    brokerVersionString: str
    loadReportType: str
    startTimestamp: int
    lastUpdate: int
    persistentTopicsEnabled: bool
    nonPersistentTopicsEnabled: bool
    protocols: dict[str, str]
    bundles: list[str]
    numTopics: int
    numProducers: int
    numConsumers: int
    msgRateIn: float
    msgRateOut: float
    msgThroughputIn: float
    msgThroughputOut: float


class MetricSums(TypedDict):
    """Of the topics that the dimensions name."""

    metrics: dict[str, float]
    dimensions: dict[str, str]


class LedgerFiles(TypedDict):
    directory: str
    device: int
    inode: int


class LedgerRecords(TypedDict):
    """In base64, by their paths."""

    records: dict[str, str]


class BookieName(TypedDict):
    bookieId: str


class BookieNames(TypedDict):
    bookies: list[BookieName]


class ReadHold(TypedDict):
    topics: list[str]
    entries: int


class OwnedBundle(TypedDict):
    broker_assignment: str
    is_controlled: bool
    is_active: bool


class FailureDomain(TypedDict):
    """Of other brokers; there are none here."""

    brokers: list[str]


class BrokersOverview(TypedDict):
    """Of the brokers themselves a super-user sees more."""

    atMs: int
    version: str
    cluster: str
    brokerId: str
    startedMs: int
    topics: TopicRow
    busiest: list[TopicRow]
    brokers: NotRequired[dict[str, dict[str, Any]]]
    """What each shows of its process, and what its ledgers count by the names of the counters."""
    silentBrokers: NotRequired[list[str]]
