"""What a broker tells the others of itself: where it is reached, and what it carries."""

from __future__ import annotations

from msgspec import Struct, field


class ResourceUsage(Struct, frozen=True, kw_only=True):
    usage: float = 0.0
    limit: float = 0.0

    @property
    def share(self) -> float:
        """From 0 to 1; 0 where there is no limit to compare with."""
        return self.usage / self.limit if self.limit > 0 else 0.0


class BundleStats(Struct, frozen=True, kw_only=True):
    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    consumerCount: int = 0
    producerCount: int = 0
    topics: int = 0
    cacheSize: int = 0

    @property
    def msg_rate(self) -> float:
        return self.msgRateIn + self.msgRateOut

    @property
    def throughput(self) -> float:
        return self.msgThroughputIn + self.msgThroughputOut


class BrokerReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The registration of a broker, with the fields of Pulsar's LocalBrokerData."""

    brokerId: str = ""
    webServiceUrl: str | None = None
    webServiceUrlTls: str | None = None
    pulsarServiceUrl: str | None = None
    pulsarServiceUrlTls: str | None = None
    persistentTopicsEnabled: bool = False
    nonPersistentTopicsEnabled: bool = False
    cpu: ResourceUsage = ResourceUsage()
    memory: ResourceUsage = ResourceUsage()
    directMemory: ResourceUsage = ResourceUsage()
    bandwidthIn: ResourceUsage = ResourceUsage()
    bandwidthOut: ResourceUsage = ResourceUsage()
    msgThroughputIn: float = 0.0
    msgThroughputOut: float = 0.0
    msgRateIn: float = 0.0
    msgRateOut: float = 0.0
    lastUpdate: int = 0
    lastStats: dict[str, BundleStats] = field(default_factory=dict)
    numTopics: int = 0
    numBundles: int = 0
    numConsumers: int = 0
    numProducers: int = 0
    bundles: tuple[str, ...] = ()
    lastBundleGains: tuple[str, ...] = ()
    lastBundleLosses: tuple[str, ...] = ()
    brokerVersionString: str = ""
    protocols: dict[str, str] = field(default_factory=dict)
    advertisedListeners: dict[str, dict[str, str]] = field(default_factory=dict)
    startTimestamp: int = 0
    loadManagerClassName: str = ""
    """Brokers of Apache Pulsar write it, those of this project do not."""
    loadReportType: str = ""
    maxResourceUsage: float = 0.0

    @property
    def msg_rate(self) -> float:
        return self.msgRateIn + self.msgRateOut

    @property
    def throughput(self) -> float:
        return self.msgThroughputIn + self.msgThroughputOut

    @property
    def usage(self) -> float:
        """The busiest of what it has: processor, memory, network; 1 is all of it."""
        parts = (self.cpu, self.memory, self.directMemory, self.bandwidthIn, self.bandwidthOut)
        return max(each.share for each in parts)
