"""Scalable topics: their life, layout, subscriptions and numbers."""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.client.admin.name import format_namespace
from magnetar.client.admin.operation import ScalableTopicOperations
from magnetar.client.admin.transport import Names


class AsyncScalableAdmin(ScalableTopicOperations):
    """A topic may be named in any domain: `topic://t/n/x`, `persistent://t/n/x` or `t/n/x`."""

    async def list(self, namespace: str, *, properties: Mapping[str, str] | None = None) -> Names:
        """Full names; of those only that have all the given properties."""
        filters = [f"{key}={value}" for key, value in (properties or {}).items()]
        path = f"admin/v2/scalable/{format_namespace(namespace)}"
        names: Names = await self._transport.get(path, {"property": filters})
        return names
