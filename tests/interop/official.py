"""The official client and the admin interface, as the tests of this folder use them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pulsar

from magnetar.testing.broker import MagnetarBroker

Admin = Callable[..., Any]


def connect(broker: MagnetarBroker) -> pulsar.Client:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(broker.service_url, operation_timeout_seconds=20, logger=quiet)


def make_admin(broker: MagnetarBroker) -> Admin:
    def call(method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{broker.admin_url}/admin/v2/{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            content = response.read()
            return json.loads(content) if content else None

    return call


def path_of(topic: str) -> str:
    """A topic's place in the admin interface."""
    return topic.replace("://", "/")
