"""Offload policies: kept and told, though there is no long-term storage to offload to yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from magnetar.errors import PreconditionFailed
from magnetar.model.policy import Policies

_BUCKET_DRIVERS: Final = {"aws-s3": "s3", "s3": "s3", "google-cloud-storage": "gcs"}


class OffloadThreshold(Enum):
    """A limit with a path of its own: path, key inside offload policies, older field."""

    BYTES = ("offloadThreshold", "managedLedgerOffloadThresholdInBytes", "offload_threshold")
    SECONDS = (
        "offloadThresholdInSeconds",
        "managedLedgerOffloadThresholdInSeconds",
        "offload_threshold_in_seconds",
    )
    DELETION_LAG = (
        "offloadDeletionLagMs",
        "managedLedgerOffloadDeletionLagInMillis",
        "offload_deletion_lag_ms",
    )

    @property
    def path(self) -> str:
        return self.value[0]

    @property
    def key(self) -> str:
        return self.value[1]

    @property
    def field(self) -> str:
        return self.value[2]


def read_threshold(policies: Policies, threshold: OffloadThreshold) -> int | None:
    told = (policies.offload_policies or {}).get(threshold.key)
    older: int | None = getattr(policies, threshold.field)
    return int(told) if told is not None else older


def check_threshold(threshold: OffloadThreshold, value: int | None) -> None:
    if threshold is OffloadThreshold.SECONDS and value is not None and value < -1:
        raise PreconditionFailed("Invalid value for offloadThresholdInSecond")


def apply_threshold(policies: Policies, threshold: OffloadThreshold, value: int | None) -> Policies:
    kept = dict(policies.offload_policies or {})
    kept.pop(threshold.key, None)
    if value is not None:
        kept[threshold.key] = value
    default = None if threshold is OffloadThreshold.DELETION_LAG else -1
    return replace(policies, offload_policies=kept or None, **{threshold.field: default})


def check_offload_policies(policies: Mapping[str, Any]) -> None:
    driver = policies.get("managedLedgerOffloadDriver")
    if driver is None:
        return
    if not isinstance(driver, str):
        raise PreconditionFailed("The driver must be a name")
    prefix = _BUCKET_DRIVERS.get(driver.lower())
    if prefix is None:
        return
    if not _any(policies, "managedLedgerOffloadBucket", f"{prefix}ManagedLedgerOffloadBucket"):
        raise PreconditionFailed("The bucket must be specified for namespace offload.")
    places = [
        f"{each}ManagedLedgerOffload{what}"
        for each in (prefix, "")
        for what in ("Region", "ServiceEndpoint")
    ]
    if not _any(policies, *(name[0].lower() + name[1:] for name in places)):
        raise PreconditionFailed(
            "The region or the service endpoint must be specified for namespace offload."
        )


def _any(policies: Mapping[str, Any], *keys: str) -> bool:
    return any(policies.get(key) for key in keys)
