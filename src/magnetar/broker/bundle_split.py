"""How a bundle is cut, at the broker that owns it: its topics stay loaded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.resource import Namespaces
from magnetar.errors import LockBusy, NoOwner, PreconditionFailed
from magnetar.model.policy import LocalPolicies, Policies
from magnetar.rules.bundle import (
    Bundle,
    check_range,
    cut_range,
    make_bundles,
    parse_range,
    ranges_of,
)
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class BundleSplitter:
    def __init__(self, namespaces: Namespaces, ownership: BundleOwnership) -> None:
        self._namespaces: Final = namespaces
        self._ownership: Final = ownership

    async def split(self, bundle: Bundle, cuts: Collection[int]) -> tuple[Bundle, ...]:
        """Own the parts, then let the records name them, then give the whole up; return the parts.

        Both records say the same: that of this cluster, and that which clusters share.
        """
        if bundle not in self._ownership.locks:
            raise NoOwner(f"Bundle {bundle} is not owned here")
        present = await self._namespaces.get_local(bundle.namespace)
        if present is None or present.bundles is None or not present.bundles.boundaries:
            raise PreconditionFailed(f"{bundle} is not a bundle of its namespace")
        boundaries = self._cut(bundle, cuts, present.bundles.boundaries)
        parts = self._parts(bundle, boundaries)
        try:
            for part in parts:
                await self._ownership.locks.acquire(part)
        except LockBusy as refusal:
            raise NoOwner(f"{refusal.sentence}; try again") from None

        def change(local: LocalPolicies) -> LocalPolicies:
            assert local.bundles is not None and local.bundles.boundaries is not None
            cut = self._cut(bundle, cuts, local.bundles.boundaries)
            return replace(local, bundles=make_bundles(cut))

        changed = await self._namespaces.update_local(bundle.namespace, change)

        def copy(policies: Policies) -> Policies:
            return replace(policies, bundles=changed.bundles)

        await self._namespaces.update(bundle.namespace, copy)
        await self._ownership.locks.release(bundle)
        _log.info("bundle split", bundle=str(bundle), parts=len(parts))
        return parts

    def _cut(
        self, bundle: Bundle, cuts: Collection[int], boundaries: tuple[str, ...]
    ) -> tuple[str, ...]:
        return cut_range(check_range(bundle.namespace, bundle.range, boundaries), boundaries, cuts)

    def _parts(self, bundle: Bundle, boundaries: tuple[str, ...]) -> tuple[Bundle, ...]:
        lower, upper = parse_range(bundle.range)
        inside = []
        for text in ranges_of(boundaries):
            first, end = parse_range(text)
            if lower <= first and end <= upper:
                inside.append(Bundle(bundle.namespace, text))
        return tuple(inside)
