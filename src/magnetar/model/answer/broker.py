"""What brokers and bookies show of themselves."""

from typing import NotRequired, TypedDict


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
