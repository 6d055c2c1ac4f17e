"""The records by which brokers share bundles out: who owns one, and what is asked of its owner."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

import msgspec

from magnetar.broker.ownership import Owner
from magnetar.errors import BadRequest, InvalidName, RecordUnreadable
from magnetar.model.document import decode_json
from magnetar.model.position import Term
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.bundle import Bundle, parse_bundle

OWNERS: Final = "/namespace"
REQUESTS: Final = "/magnetar/bundle-requests"
INTERNAL: Final = "internal"
"""The listener that every broker of Pulsar's has; lookups through its ports name it."""


class OwnerRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Pulsar's fields, then ours. An absent URL is left out: brokers of Pulsar pass "" on."""

    brokerId: str
    nativeUrl: str | None = None
    nativeUrlTls: str | None = None
    httpUrl: str | None = None
    httpUrlTls: str | None = None
    disabled: bool | None = None
    """Written as false, for readers that expect it; true says that it is being unloaded."""
    advertisedListeners: dict[str, dict[str, str]] = {}
    term: int = 0
    """Which start of a broker took the bundle; for people. What fences is the log's record."""

    @property
    def urls(self) -> tuple[str | None, ...]:
        """What makes two records those of one broker."""
        return self.nativeUrl, self.nativeUrlTls, self.httpUrl, self.httpUrlTls


class BundleAction(StrEnum):
    """What a request asks for."""

    OWN = "own"
    """Let the broker it names own the bundle, also if another does; none named: the leader
    chooses, if it has no owner."""
    UNLOAD = "unload"
    """Let its owner close the topics and give it up."""
    SPLIT = "split"
    """Let its owner cut it in two."""


class BundleRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Gone when it was met, or with the session of the broker that asked."""

    action: BundleAction = msgspec.field(name="wish")
    brokerId: str = ""


def owner_path(bundle: Bundle) -> str:
    return f"{OWNERS}/{bundle}"


def request_path(bundle: Bundle) -> str:
    return f"{REQUESTS}/{bundle}"


def bundle_at(path: str, root: str) -> Bundle | None:
    """The bundle a path names; None for a parent, and for what is no bundle."""
    try:
        return parse_bundle(path.removeprefix(f"{root}/"))
    except (BadRequest, InvalidName):
        return None


def with_internal(owner: Owner) -> Owner:
    """The same broker, found under the name of the internal listener too."""
    return replace(owner, listeners={INTERNAL: owner.address} | dict(owner.listeners))


def describe_listeners(owner: Owner) -> dict[str, dict[str, str]]:
    """The addresses of a broker by listener, as Pulsar spells them; absent ones are left out."""
    web = {"brokerHttpUrl": owner.web_url, "brokerHttpsUrl": owner.web_url_tls}
    return {
        name: {
            key: url
            for key, url in {
                "brokerServiceUrl": address.url,
                "brokerServiceUrlTls": address.url_tls,
                **web,
            }.items()
            if url
        }
        for name, address in with_internal(owner).listeners.items()
    }


def encode_owner(owner: Owner) -> bytes:
    return msgspec.json.encode(
        OwnerRecord(
            brokerId=owner.broker_id,
            nativeUrl=owner.service_url or None,
            nativeUrlTls=owner.service_url_tls or None,
            httpUrl=owner.web_url or None,
            httpUrlTls=owner.web_url_tls or None,
            disabled=False,
            advertisedListeners=describe_listeners(owner),
            term=owner.term,
        )
    )


def decode_owner(path: str, value: bytes) -> OwnerRecord:
    try:
        return decode_json(value, OwnerRecord)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"{path}: {error}") from None


def make_owner(record: OwnerRecord) -> Owner:
    """Another broker, as its record describes it."""
    return Owner(
        broker_id=record.brokerId,
        service_url=record.nativeUrl or "",
        web_url=record.httpUrl or "",
        term=Term(record.term),
        is_self=False,
        listeners={
            name: BrokerAddress(
                urls.get("brokerServiceUrl", ""), urls.get("brokerServiceUrlTls", "")
            )
            for name, urls in record.advertisedListeners.items()
        },
        service_url_tls=record.nativeUrlTls or "",
        web_url_tls=record.httpUrlTls or "",
    )


def decode_request(path: str, value: bytes) -> BundleRequest:
    try:
        return decode_json(value, BundleRequest)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"{path}: {error}") from None
