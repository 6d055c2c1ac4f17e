"""Who sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from magnetar.model.caller import Caller

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_METRICS: Final = "/metrics"


class AuthenticationApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def guards(self, path: str) -> bool:
        """Whether a page that is usually for everybody is not: metrics, when told so."""
        return path == _METRICS and self._service.config.authenticateMetricsEndpoint

    async def authenticate(
        self, headers: Mapping[str, str], certificate_name: str | None, host: str
    ) -> Caller:
        """Raise Unauthenticated for nobody that is known."""
        authentication = self._service.authentication
        return await authentication.authenticate_http(headers, certificate_name, host)
