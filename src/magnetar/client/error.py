"""What a client raises: refusals of the broker, of its admin REST edge, and its own."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from typing import Final

from magnetar.errors import MagnetarError, WireCode


class PulsarError(MagnetarError):
    """The root of everything the client raises; `code` is the broker's when it sent one."""

    code: WireCode | None = None


class ConfigurationError(PulsarError, ValueError):
    """An invalid argument."""


class NotFoundError(PulsarError):
    """The topic, subscription or consumer does not exist."""


class PulsarTimeoutError(PulsarError, TimeoutError):
    """No answer came in time; whether the broker did it is not known."""


class AlreadyClosedError(PulsarError):
    """The client, producer or consumer was closed."""


class AuthenticationError(PulsarError):
    """The broker does not accept the credentials."""


class AuthorizationError(PulsarError, PermissionError):
    """The role may not do this."""


class ConnectError(PulsarError, ConnectionError):
    """The connection could not be made, or ended."""

    is_refused: bool = False
    """Whether nothing listens there."""
    retry_until: float | None = None
    """The time of the client's clock after which it is of no use to try again."""


class WrongPortError(ConnectError):
    """Something else than a broker answers there, or a broker that expects TLS."""


class ProducerBusyError(PulsarError):
    """Another producer holds the name, or the topic's limit is reached."""


class ProducerFencedError(PulsarError):
    """Another producer took the topic exclusively; this one is finished."""


class ConsumerBusyError(PulsarError):
    """The subscription is held by another consumer, or is of another type."""


class QueueFullError(PulsarError):
    """Too many sends are waiting and the producer was told not to wait."""


class SendFailedError(PulsarError):
    """Messages that were submitted were not stored; raised by `flush`.

    `failed` is how many since the last flush, `first` is why the first of them was not.
    """

    def __init__(self, topic: str, failed: int, first: PulsarError) -> None:
        messages = "message was" if failed == 1 else "messages were"
        super().__init__(f"{failed} {messages} not stored on {topic}; the first: {first}")
        self.failed = failed
        self.first = first
        self.code = first.code


class QuotaExceededError(PulsarError):
    """The topic's backlog quota is used up."""


class SchemaError(PulsarError):
    """The schema does not fit the topic's."""


class TopicTerminatedError(PulsarError):
    """The topic takes no more messages."""


class NotAllowedError(PulsarError):
    """A policy, or the kind of topic, forbids it."""


class InvalidMessageError(PulsarError):
    """Received bytes that are not a message, or a message that is too large to send."""


class TransactionError(PulsarError):
    """The transaction is unknown, in conflict or in the wrong state."""


class TransactionConflictError(TransactionError):
    """Another transaction holds what this one asks for."""


class TransactionNotFoundError(TransactionError):
    """Its coordinator does not know the transaction: it has ended, or is another caller's."""


class TransactionTimedOutError(TransactionError):
    """It was not committed in time, and is aborted."""


class CryptoError(PulsarError):
    """A key is missing or wrong, or what was encrypted was changed."""


class FeatureNotSupportedError(PulsarError):
    """Neither this client nor its broker offers it."""


class UnavailableError(PulsarError):
    """The broker cannot do it now; the client asks again until its timeout."""


class CoordinatorUnavailableError(UnavailableError, TransactionError):
    """No broker runs the transaction's coordinator now; the client asks again until its timeout."""


_BY_CODE: Final[Mapping[WireCode, type[PulsarError]]] = {
    WireCode.UNKNOWN: UnavailableError,
    WireCode.METADATA: UnavailableError,
    WireCode.PERSISTENCE: UnavailableError,
    WireCode.AUTHENTICATION: AuthenticationError,
    WireCode.AUTHORIZATION: AuthorizationError,
    WireCode.CONSUMER_BUSY: ConsumerBusyError,
    WireCode.SERVICE_NOT_READY: UnavailableError,
    WireCode.PRODUCER_BLOCKED_QUOTA_HOLD: QuotaExceededError,
    WireCode.PRODUCER_BLOCKED_QUOTA_EXCEPTION: QuotaExceededError,
    WireCode.CHECKSUM: InvalidMessageError,
    WireCode.UNSUPPORTED_VERSION: NotAllowedError,
    WireCode.TOPIC_NOT_FOUND: NotFoundError,
    WireCode.SUBSCRIPTION_NOT_FOUND: NotFoundError,
    WireCode.CONSUMER_NOT_FOUND: NotFoundError,
    WireCode.TOO_MANY_REQUESTS: UnavailableError,
    WireCode.TOPIC_TERMINATED: TopicTerminatedError,
    WireCode.PRODUCER_BUSY: ProducerBusyError,
    WireCode.INVALID_TOPIC_NAME: ConfigurationError,
    WireCode.INCOMPATIBLE_SCHEMA: SchemaError,
    WireCode.CONSUMER_ASSIGN: ConsumerBusyError,
    WireCode.TRANSACTION_COORDINATOR_NOT_FOUND: CoordinatorUnavailableError,
    WireCode.INVALID_TRANSACTION_STATUS: TransactionError,
    WireCode.NOT_ALLOWED: NotAllowedError,
    WireCode.TRANSACTION_CONFLICT: TransactionConflictError,
    WireCode.TRANSACTION_NOT_FOUND: TransactionNotFoundError,
    WireCode.PRODUCER_FENCED: ProducerFencedError,
}


def decode_refusal(code: int, message: str) -> PulsarError:
    """Turn a broker's ServerError into the exception that names it."""
    try:
        known = WireCode(code)
    except ValueError:
        return UnavailableError(message or f"the broker refused with unknown code {code}")
    error = _BY_CODE[known](
        message or f"the broker refused: {known.name.lower().replace('_', ' ')}"
    )
    error.code = known
    return error


class AdminError(PulsarError):
    """The admin REST edge refused a call."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class AdminUnauthorized(AdminError):
    """401 or 403."""


class AdminNotFound(AdminError):
    """404."""


class AdminNotAllowed(AdminError):
    """405."""


class AdminConflict(AdminError):
    """409."""


class AdminPreconditionFailed(AdminError):
    """412."""


class AdminServerFailed(AdminError):
    """Any 5xx."""


class AdminUnreachable(PulsarError):
    """No answer: nothing listens at the URL, or what answered does not speak HTTP."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"Cannot reach the admin service at {url}: {cause}")
        self.url = url


_BY_STATUS: Final[Mapping[int, type[AdminError]]] = {
    401: AdminUnauthorized,
    403: AdminUnauthorized,
    404: AdminNotFound,
    405: AdminNotAllowed,
    409: AdminConflict,
    412: AdminPreconditionFailed,
}


def decode_status(status: int, reason: str) -> AdminError:
    """Turn a REST refusal into the exception that names it."""
    kind = _BY_STATUS.get(status, AdminServerFailed if status >= 500 else AdminError)
    return kind(status, reason)


def tell_cause(error: Exception) -> str:
    """Why a connection failed, in a few words."""
    import ssl

    if isinstance(error, OSError) and is_refusal(error):
        return os.strerror(errno.ECONNREFUSED).lower()
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        if error.errno is not None and error.errno > 0:  # name resolution has numbers of its own
            return os.strerror(error.errno).lower()
        return (error.strerror or str(error)).lower() or "the connection was closed"
    return str(error) or type(error).__name__


_UNUSABLE: Final = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH}
"""A name may have addresses of a kind that this machine does not use."""


def is_refusal(error: OSError) -> bool:
    """Whether a TCP connection was refused at every address of a host: for several, asyncio knows
    no more than what each attempt said.
    """
    if isinstance(error, ConnectionRefusedError):
        return True
    said = {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))}
    return errno.ECONNREFUSED in said and said <= {errno.ECONNREFUSED, *_UNUSABLE}
