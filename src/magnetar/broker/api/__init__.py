"""What an administrator may ask of the broker; the REST edge sees this and nothing behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.api.authentication import AuthenticationApi
from magnetar.broker.api.web import make_web_limit
from magnetar.broker.exposition import render_metrics

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class BrokerApi:
    """One part for each kind of thing that is administered."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.access = service.authorization
        self.web = make_web_limit(service)
        self.unread = service.unread
        self.authentication = AuthenticationApi(service)

    async def render_metrics(self) -> str:
        return await render_metrics(self.service)
