"""For tests only: a real broker as a fixture, and fakes that pass the contract suites too."""

from magnetar.testing.broker import BrokerFailed, MagnetarBroker, RunningServer, running_broker

__all__ = ["BrokerFailed", "MagnetarBroker", "RunningServer", "running_broker"]
