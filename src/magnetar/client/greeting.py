"""What a client says of itself: on connecting, and when asked for fresh credentials."""

from __future__ import annotations

from typing import Final

from magnetar import __version__
from magnetar.client.error import ConfigurationError
from magnetar.wire.command import (
    PROTOCOL_VERSION,
    AuthData,
    CommandAuthResponse,
    CommandConnect,
    FeatureFlags,
)

CLIENT_VERSION: Final = f"Magnetar-Python-v{__version__}"


DESCRIPTION_CHARS_MAX: Final = 64


def parse_description(text: str | None) -> str:
    """What an application calls itself, as brokers list it behind the version of the client."""
    if text is not None and len(text) > DESCRIPTION_CHARS_MAX:
        raise ConfigurationError(f"description is at most {DESCRIPTION_CHARS_MAX} characters long")
    return text or ""


def make_connect(
    method: str, data: bytes, proxy_to: str | None, description: str = ""
) -> CommandConnect:
    connect = CommandConnect(
        client_version=f"{CLIENT_VERSION}-{description}" if description else CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        auth_method_name=method,
        auth_data=data,
        feature_flags=FeatureFlags(
            supports_auth_refresh=True,
            supports_broker_entry_metadata=True,
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
            supports_scalable_topics=True,
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
