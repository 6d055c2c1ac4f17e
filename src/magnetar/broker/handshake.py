"""How a connection begins: what the broker tells a client that it lets in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.command import (
    PROTOCOL_VERSION,
    BaseCommand,
    CommandConnect,
    CommandConnected,
    FeatureFlags,
    make_command,
)

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.service import Service


def welcome(connection: Connection, connect: CommandConnect) -> None:
    """Take what the client says about itself and answer CONNECTED."""
    connection.client_version = connect.client_version
    connection.protocol_version = min(connect.protocol_version, PROTOCOL_VERSION)
    connection.features = connect.feature_flags
    connection.send_command(_connected(connection.service, connection.protocol_version))


def _connected(service: Service, protocol_version: int) -> BaseCommand:
    watchers = service.config.enableBrokerSideSubscriptionPatternEvaluation
    return make_command(
        CommandConnected(
            server_version=f"Magnetar {service.version}",
            protocol_version=protocol_version,
            max_message_size=service.config.maxMessageSize,
            feature_flags=FeatureFlags(
                supports_auth_refresh=True,
                supports_broker_entry_metadata=True,
                supports_partial_producer=True,
                supports_topic_watchers=watchers,
                supports_get_partitioned_metadata_without_auto_creation=True,
                supports_topic_watcher_reconcile=watchers,
                supports_scalable_topics=service.config.scalableTopicsEnabled,
            ),
        )
    )
