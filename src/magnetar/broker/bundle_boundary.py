"""Where a namespace is cut into bundles, as this cluster keeps it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from magnetar.broker.resource import Namespaces
from magnetar.model.name import NamespaceName
from magnetar.model.policy import LocalPolicies
from magnetar.rules.bundle import make_bundles, plan_boundaries


async def load_boundaries(
    namespaces: Namespaces, namespace: NamespaceName, *, count: int
) -> tuple[str, ...]:
    """Of a namespace that exists. On first use they are copied from the policies that clusters
    share; where those say nothing, there are `count` even ranges.
    """

    def complete(local: LocalPolicies) -> LocalPolicies:
        if local.bundles is not None and local.bundles.boundaries:
            return local
        return replace(local, bundles=make_bundles(plan_boundaries(count)))

    local = await namespaces.get_or_create_local(namespace)
    if complete(local) is not local:
        local = await namespaces.update_local(namespace, complete)
    assert local.bundles is not None and local.bundles.boundaries is not None, "just made"
    return local.bundles.boundaries


class Boundaries:
    def __init__(self, namespaces: Namespaces, count: Callable[[], int]) -> None:
        self._namespaces = namespaces
        self._count = count

    async def __call__(self, namespace: NamespaceName) -> tuple[str, ...] | None:
        """None for a namespace that does not exist."""
        local = await self._namespaces.get_local(namespace)
        if local is not None and local.bundles is not None and local.bundles.boundaries:
            return local.bundles.boundaries
        if not await self._namespaces.exists(namespace):
            return None
        return await load_boundaries(self._namespaces, namespace, count=self._count())
