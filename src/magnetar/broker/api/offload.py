"""Offload policies: kept and told, though there is no long-term storage to offload to yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from magnetar.errors import PreconditionFailed
from magnetar.model.policy import Policies

_DRIVERS: Final[Mapping[str, str | None]] = {
    "s3": "s3",
    "aws-s3": "s3",
    "google-cloud-storage": "gcs",
    "filesystem": None,
    "azureblob": "",
    "aliyun-oss": "",
}
"""How a driver's own fields begin; None when it needs no bucket."""
_Limit: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
_Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class _Shape(Struct):
    """The fields that brokers know; what else there is belongs to the driver."""

    fileSystemProfilePath: str | None = None
    fileSystemURI: str | None = None
    gcsManagedLedgerOffloadBucket: str | None = None
    gcsManagedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    gcsManagedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    gcsManagedLedgerOffloadRegion: str | None = None
    gcsManagedLedgerOffloadServiceAccountKeyFile: str | None = None
    managedLedgerExtraConfigurations: dict[str, str] | None = None
    managedLedgerOffloadBucket: str | None = None
    managedLedgerOffloadDeletionLagInMillis: _Limit | None = None
    managedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    managedLedgerOffloadMaxThreads: _Count | None = None
    managedLedgerOffloadPrefetchRounds: _Count | None = None
    managedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    managedLedgerOffloadReadThreads: _Count | None = None
    managedLedgerOffloadRegion: str | None = None
    managedLedgerOffloadServiceEndpoint: str | None = None
    managedLedgerOffloadThresholdInBytes: _Limit | None = None
    managedLedgerOffloadThresholdInSeconds: _Limit | None = None
    managedLedgerOffloadedReadPriority: (
        Literal["BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST"] | None
    ) = None
    offloadersDirectory: str | None = None
    s3ManagedLedgerOffloadBucket: str | None = None
    s3ManagedLedgerOffloadCredentialId: str | None = None
    s3ManagedLedgerOffloadCredentialSecret: str | None = None
    s3ManagedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    s3ManagedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    s3ManagedLedgerOffloadRegion: str | None = None
    s3ManagedLedgerOffloadRole: str | None = None
    s3ManagedLedgerOffloadRoleSessionName: str | None = None
    s3ManagedLedgerOffloadServiceEndpoint: str | None = None


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
    if not isinstance(driver, str) or driver.lower() not in _DRIVERS:
        raise PreconditionFailed(
            f"Invalid value for managedLedgerOffloadDriver: {driver!r} is not supported;"
            f" there are {', '.join(_DRIVERS)}"
        )
    try:
        convert(policies, _Shape)
    except ValidationError as error:
        raise PreconditionFailed(f"Invalid value for offloadPolicies: {error}") from None
    prefix = _DRIVERS[driver.lower()]
    if prefix is None:
        return
    buckets = ["managedLedgerOffloadBucket", f"{prefix}ManagedLedgerOffloadBucket"]
    if not _any(policies, *buckets[: 2 if prefix else 1]):
        raise PreconditionFailed("The bucket must be specified for namespace offload.")
    places = [
        f"{each}ManagedLedgerOffload{what}"
        for each in (prefix, "")
        for what in ("Region", "ServiceEndpoint")
    ]
    if prefix and not _any(policies, *(name[0].lower() + name[1:] for name in places)):
        raise PreconditionFailed(
            "The region or the service endpoint must be specified for namespace offload."
        )


def _any(policies: Mapping[str, Any], *keys: str) -> bool:
    return any(policies.get(key) for key in keys)
