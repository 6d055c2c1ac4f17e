"""Reaching a broker: straight, or through a proxy that goes by the name in the TLS handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from magnetar.client.address import BrokerAddress
from magnetar.client.policy import ConnectionPolicy


async def dial(
    address: BrokerAddress,
    make: Callable[[], asyncio.Protocol],
    *,
    policy: ConnectionPolicy,
    tls: ssl.SSLContext | None,
) -> None:
    """Connect `make()` to the broker; its certificate is its own, also behind a proxy."""
    reached = policy.proxy or address
    context = (tls or ssl.create_default_context()) if address.secure else None
    transport, _ = await asyncio.get_running_loop().create_connection(
        make,
        reached.host,
        reached.port,
        ssl=context,
        server_hostname=None if context is None else address.host,
    )
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(policy.tcp_no_delay))
