"""What a client says of itself: on connecting, and when asked for fresh credentials."""

from __future__ import annotations

from typing import Final

from magnetar import __version__
from magnetar.wire.command import (
    PROTOCOL_VERSION,
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    FeatureFlags,
)

CLIENT_VERSION: Final = f"Magnetar-Python-v{__version__}"


def make_connect(method: str, data: bytes, proxy_to: str | None) -> CommandConnect:
    connect = CommandConnect(
        client_version=CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        auth_method_name=method,
        auth_data=data,
        feature_flags=FeatureFlags(
            supports_auth_refresh=True,
            supports_broker_entry_metadata=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
        ),
    )
    if proxy_to is not None:
        connect.proxy_to_broker_url = proxy_to
    return connect


def make_response(method: str, data: bytes) -> CommandAuthResponse:
    return CommandAuthResponse(
        client_version=CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        response=AuthData(auth_method_name=method, auth_data=data),
    )
