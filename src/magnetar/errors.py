"""Every expected refusal, and the one table that says what each means over the wire and over REST.

A refusal carries a sentence a person can act on. It is raised where the fact is known and
translated at the edge only: the connection turns it into a wire code, the REST edge into a status
with a `reason`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Final

_COMPARED_MAX: Final = 100
"""Comparing names takes time by the product of their lengths."""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that `word` was meant to be, for the end of a refusal."""
    import difflib

    folded = {_fold(name): name for name in known}
    found = difflib.get_close_matches(_fold(word), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None


def _fold(name: str) -> str:
    return name[:_COMPARED_MAX].lower().replace("_", "").replace("-", "")


class WireCode(IntEnum):
    """Pulsar's ServerError numbers."""

    UNKNOWN = 0
    METADATA = 1
    PERSISTENCE = 2
    AUTHENTICATION = 3
    AUTHORIZATION = 4
    CONSUMER_BUSY = 5
    SERVICE_NOT_READY = 6
    PRODUCER_BLOCKED_QUOTA_HOLD = 7
    PRODUCER_BLOCKED_QUOTA_EXCEPTION = 8
    CHECKSUM = 9
    UNSUPPORTED_VERSION = 10
    TOPIC_NOT_FOUND = 11
    SUBSCRIPTION_NOT_FOUND = 12
    CONSUMER_NOT_FOUND = 13
    TOO_MANY_REQUESTS = 14
    TOPIC_TERMINATED = 15
    PRODUCER_BUSY = 16
    INVALID_TOPIC_NAME = 17
    INCOMPATIBLE_SCHEMA = 18
    CONSUMER_ASSIGN = 19
    TRANSACTION_COORDINATOR_NOT_FOUND = 20
    INVALID_TRANSACTION_STATUS = 21
    NOT_ALLOWED = 22
    TRANSACTION_CONFLICT = 23
    TRANSACTION_NOT_FOUND = 24
    PRODUCER_FENCED = 25


_SHOWN: Final = 100
_SENTENCE: Final = 4000


def shorten(text: str, shown: int = _SHOWN) -> str:
    """A text as logs and refusals show it: a long one is cut, and its length given."""
    return text if len(text) <= shown else f"{text[:shown]}… ({len(text)} characters)"


class MagnetarError(Exception):
    """The root of everything this project raises on purpose."""

    @property
    def sentence(self) -> str:
        text = ": ".join(map(str, self.args))
        return shorten(text, _SENTENCE) if self.args else type(self).__name__


class BrokerError(MagnetarError):
    """A refusal that can cross the wire or the REST edge; each leaf has a row in FAULTS.

    It may be raised with Pulsar's own words, which tools of REST compare, and with what they are
    about. The sentence has both.
    """

    @property
    def reason(self) -> str:
        """What REST answers."""
        return shorten(str(self.args[0]), _SENTENCE) if len(self.args) > 1 else self.sentence

    @property
    def subject(self) -> str:
        """What a reason of Pulsar's leaves out."""
        return shorten(str(self.args[1])) if len(self.args) > 1 else ""


# What is missing
class TenantNotFound(BrokerError): ...


class NamespaceNotFound(BrokerError): ...


class TopicNotFound(BrokerError): ...


class SubscriptionNotFound(BrokerError): ...


class ConsumerNotFound(BrokerError): ...


class SchemaNotFound(BrokerError): ...


class SegmentNotFound(BrokerError): ...


class TopicMigrated(BrokerError):
    """A regular topic has become a scalable one, which clients of regular topics cannot use."""


class NotFound(BrokerError):
    """Anything else that is missing: a cluster, a policy, a message."""


# What is in the way
class Conflict(BrokerError):
    """It exists already, or it is of another kind than the call needs."""


class PreconditionFailed(BrokerError):
    """The call is well formed but the present state or a limit forbids it."""


class ResourceBusy(PreconditionFailed):
    """Clients are still attached."""


class NotScalable(BrokerError):
    """It takes a scalable topic, and this is a regular one."""


class LayoutTooLarge(BrokerError):
    """No client could open the topic, or no metadata store keep its record."""


class MigrationFailed(BrokerError):
    """An unexpected error stopped a migration; the log has its traceback."""


class SegmentSealed(BrokerError):
    """The segment takes no writes any more and cannot be split or merged."""


class InvalidLayout(BrokerError):
    """Segments that leave a hash unserved, serve one twice, or contradict each other."""


class NotAllowed(BrokerError):
    """A policy or the kind of topic forbids it."""


class MethodNotAllowed(BrokerError):
    """REST: this operation does not apply to this kind of topic, or is switched off."""


class NotAcceptable(BrokerError): ...


class Unprocessable(BrokerError): ...


class BadRequest(BrokerError): ...


class InvalidName(BrokerError):
    """An invalid tenant, namespace or topic name."""


class FeatureNotSupported(BrokerError): ...


class Unauthenticated(BrokerError): ...


class Unauthorized(BrokerError):
    """REST answers 401 for topic, tenant and super-user operations."""


class Forbidden(BrokerError):
    """REST answers 403 for namespace operations and policies."""


class TooManyRequests(BrokerError): ...


class ServiceNotReady(BrokerError): ...


class NoOwner(BrokerError):
    """Ownership of a topic is moving; ask again."""


# Producers and consumers
class ProducerBusy(BrokerError): ...


class SubscriptionNameReserved(BrokerError):
    """Clients of Pulsar expect the code of a busy producer here, as its brokers answer."""


class ProducerFenced(BrokerError): ...


class ConsumerBusy(BrokerError): ...


class ConsumerAssignRefused(BrokerError): ...


class TopicTerminated(BrokerError): ...


class TopicFenced(BrokerError):
    """The topic is closing or moving; reconnect."""


class QuotaHold(BrokerError):
    """Backlog quota exceeded; the producer should wait."""


class QuotaExceeded(BrokerError):
    """Backlog quota exceeded; the producer should fail."""


class ChecksumMismatch(BrokerError): ...


class IncompatibleSchema(BrokerError): ...


class InvalidSchema(BrokerError): ...


class UnsupportedVersion(BrokerError): ...


# Transactions
class TransactionsDisabled(BrokerError): ...


class CoordinatorNotFound(BrokerError):
    """The coordinator is not served here, or not any more; look it up again."""


class TransactionNotFound(BrokerError):
    """Unknown, ended long ago, or another role's."""


class InvalidTransactionStatus(BrokerError): ...


class UnknownOutcome(BrokerError):
    """A transaction is to be ended neither by a commit nor by an abort."""


class TransactionEnded(BrokerError):
    """A message of a transaction that has ended on the topic."""


class TransactionConflict(BrokerError):
    """Another transaction holds what this one acknowledges, or it is acknowledged already."""


# Metadata
class RecordNotFound(BrokerError): ...


class RecordExists(BrokerError): ...


class VersionConflict(BrokerError): ...


class RecordNotEmpty(BrokerError): ...


class RecordUnreadable(BrokerError): ...


class BucketsDiffer(BrokerError):
    """A namespace's policies tell another number of topic buckets than its topics are kept in, or
    than can be kept where brokers share their ledgers.
    """


class TopicUnsupported(BrokerError):
    """A topic of another kind of broker has something that this one cannot serve."""


class PoliciesUnavailable(BrokerError):
    """What keeps a namespace's topic policies cannot be read now; topics load to be read."""


class InvalidPath(BrokerError): ...


class LockBusy(BrokerError): ...


class StoreClosed(BrokerError): ...


class StoreUnavailable(BrokerError):
    """The metadata store did not answer in time; nothing is known about the outcome."""


# Storage
class LedgerNotFound(BrokerError): ...


class LedgerSealed(BrokerError): ...


class LedgerFenced(BrokerError):
    """Another owner, with a higher term, took the ledger over."""


class LedgerCorrupt(BrokerError):
    """Bytes on disk do not match their checksum."""


class EntryNotFound(BrokerError): ...


class StorageFull(BrokerError): ...


class StorageFailed(BrokerError):
    """The disk refused a write or a sync; the ledger is sealed at the last durable entry."""


class EntryTooLarge(BrokerError):
    """The storage nodes take no entry of this size."""


class BookieUnavailable(BrokerError):
    """A storage node does not answer, or none of those that have an entry does."""


class NotEnoughBookies(BrokerError):
    """There are fewer storage nodes than copies are asked for."""


class DataDirectoryRefused(MagnetarError):
    """Another process holds the directory, or its format is unknown to this version."""


class PromotionRefused(MagnetarError):
    """A data directory cannot be carried into a cluster, or not into this one."""


class InvalidConfiguration(MagnetarError): ...


class ProtocolViolation(MagnetarError):
    """The peer broke the protocol; the connection is closed."""


@dataclass(frozen=True, slots=True)
class Fault:
    code: WireCode
    status: HTTPStatus
    retry: bool


def _fault(code: WireCode, status: int, *, retry: bool = False) -> Fault:
    return Fault(code, HTTPStatus(status), retry)


FAULTS: Final[Mapping[type[BrokerError], Fault]] = {
    TenantNotFound: _fault(WireCode.TOPIC_NOT_FOUND, 404),
    NamespaceNotFound: _fault(WireCode.TOPIC_NOT_FOUND, 404),
    TopicNotFound: _fault(WireCode.TOPIC_NOT_FOUND, 404),
    SubscriptionNotFound: _fault(WireCode.SUBSCRIPTION_NOT_FOUND, 404),
    ConsumerNotFound: _fault(WireCode.CONSUMER_NOT_FOUND, 404),
    SchemaNotFound: _fault(WireCode.TOPIC_NOT_FOUND, 404),
    SegmentNotFound: _fault(WireCode.TOPIC_NOT_FOUND, 404),
    # Official clients take this code, and no other, for the end of a consumer that reconnects.
    TopicMigrated: _fault(WireCode.TOPIC_NOT_FOUND, 410),
    NotFound: _fault(WireCode.METADATA, 404),
    Conflict: _fault(WireCode.NOT_ALLOWED, 409),
    PreconditionFailed: _fault(WireCode.NOT_ALLOWED, 412),
    ResourceBusy: _fault(WireCode.METADATA, 412),
    NotScalable: _fault(WireCode.NOT_ALLOWED, 412),
    LayoutTooLarge: _fault(WireCode.NOT_ALLOWED, 412),
    MigrationFailed: _fault(WireCode.UNKNOWN, 500),
    SegmentSealed: _fault(WireCode.TOPIC_TERMINATED, 412),
    InvalidLayout: _fault(WireCode.METADATA, 412),
    NotAllowed: _fault(WireCode.NOT_ALLOWED, 409),
    MethodNotAllowed: _fault(WireCode.NOT_ALLOWED, 405),
    NotAcceptable: _fault(WireCode.NOT_ALLOWED, 406),
    Unprocessable: _fault(WireCode.NOT_ALLOWED, 422),
    BadRequest: _fault(WireCode.METADATA, 400),
    InvalidName: _fault(WireCode.INVALID_TOPIC_NAME, 412),
    FeatureNotSupported: _fault(WireCode.NOT_ALLOWED, 501),
    Unauthenticated: _fault(WireCode.AUTHENTICATION, 401),
    Unauthorized: _fault(WireCode.AUTHORIZATION, 401),
    Forbidden: _fault(WireCode.AUTHORIZATION, 403),
    TooManyRequests: _fault(WireCode.TOO_MANY_REQUESTS, 429, retry=True),
    ServiceNotReady: _fault(WireCode.SERVICE_NOT_READY, 503, retry=True),
    NoOwner: _fault(WireCode.METADATA, 503, retry=True),
    ProducerBusy: _fault(WireCode.PRODUCER_BUSY, 409),
    SubscriptionNameReserved: _fault(WireCode.PRODUCER_BUSY, 412),
    ProducerFenced: _fault(WireCode.PRODUCER_FENCED, 409),
    ConsumerBusy: _fault(WireCode.CONSUMER_BUSY, 409),
    ConsumerAssignRefused: _fault(WireCode.CONSUMER_ASSIGN, 409),
    TopicTerminated: _fault(WireCode.TOPIC_TERMINATED, 405),
    TopicFenced: _fault(WireCode.SERVICE_NOT_READY, 503, retry=True),
    QuotaHold: _fault(WireCode.PRODUCER_BLOCKED_QUOTA_HOLD, 409, retry=True),
    QuotaExceeded: _fault(WireCode.PRODUCER_BLOCKED_QUOTA_EXCEPTION, 409),
    ChecksumMismatch: _fault(WireCode.CHECKSUM, 400),
    IncompatibleSchema: _fault(WireCode.INCOMPATIBLE_SCHEMA, 409),
    InvalidSchema: _fault(WireCode.INCOMPATIBLE_SCHEMA, 422),
    UnsupportedVersion: _fault(WireCode.UNSUPPORTED_VERSION, 400),
    TransactionsDisabled: _fault(WireCode.NOT_ALLOWED, 503),
    CoordinatorNotFound: _fault(WireCode.TRANSACTION_COORDINATOR_NOT_FOUND, 404, retry=True),
    TransactionNotFound: _fault(WireCode.TRANSACTION_NOT_FOUND, 404),
    InvalidTransactionStatus: _fault(WireCode.INVALID_TRANSACTION_STATUS, 409),
    UnknownOutcome: _fault(WireCode.UNKNOWN, 400),
    TransactionEnded: _fault(WireCode.NOT_ALLOWED, 409),
    TransactionConflict: _fault(WireCode.TRANSACTION_CONFLICT, 409),
    RecordNotFound: _fault(WireCode.METADATA, 404),
    RecordExists: _fault(WireCode.METADATA, 409),
    VersionConflict: _fault(WireCode.METADATA, 409, retry=True),
    RecordNotEmpty: _fault(WireCode.METADATA, 409),
    RecordUnreadable: _fault(WireCode.METADATA, 500),
    BucketsDiffer: _fault(WireCode.METADATA, 500),
    TopicUnsupported: _fault(WireCode.NOT_ALLOWED, 501),
    PoliciesUnavailable: _fault(WireCode.METADATA, 503, retry=True),
    InvalidPath: _fault(WireCode.METADATA, 412),
    LockBusy: _fault(WireCode.METADATA, 409, retry=True),
    StoreClosed: _fault(WireCode.METADATA, 503, retry=True),
    StoreUnavailable: _fault(WireCode.METADATA, 503, retry=True),
    LedgerNotFound: _fault(WireCode.PERSISTENCE, 404),
    LedgerSealed: _fault(WireCode.PERSISTENCE, 409, retry=True),
    LedgerFenced: _fault(WireCode.PERSISTENCE, 409, retry=True),
    LedgerCorrupt: _fault(WireCode.PERSISTENCE, 500),
    EntryNotFound: _fault(WireCode.PERSISTENCE, 404),
    StorageFull: _fault(WireCode.PERSISTENCE, 507, retry=True),
    StorageFailed: _fault(WireCode.PERSISTENCE, 500, retry=True),
    EntryTooLarge: _fault(WireCode.PERSISTENCE, 413),
    BookieUnavailable: _fault(WireCode.PERSISTENCE, 503, retry=True),
    NotEnoughBookies: _fault(WireCode.PERSISTENCE, 503, retry=True),
}


def fault_of(error: BrokerError) -> Fault:
    return FAULTS[type(error)]
