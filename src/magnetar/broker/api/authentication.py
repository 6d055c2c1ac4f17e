"""Who sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from magnetar.model.caller import Caller

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_OPEN: Final = frozenset(("/status.html",))
_METRICS: Final = "/metrics"


class AuthenticationApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def is_open(self, path: str) -> bool:
        """Whether everybody may ask: load balancers, and Prometheus unless told otherwise."""
        if path == _METRICS:
            return not self._service.config.authenticateMetricsEndpoint
        return path in _OPEN

    def authenticate(self, headers: Mapping[str, str], certificate_name: str | None) -> Caller:
        """Raise Unauthenticated for nobody that is known."""
        return self._service.authentication.authenticate_http(headers, certificate_name)
