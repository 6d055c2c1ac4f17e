"""Magnetar: a Pulsar-protocol messaging system whose topics scale themselves.

The public names of the client stand here. Each is loaded when it is first used, so that importing
the package stays quick.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.client.admin.blocking import AdminClient as Admin
    from magnetar.client.admin.service import AsyncAdmin as AsyncAdmin
    from magnetar.client.authentication import Authentication as Authentication
    from magnetar.client.authentication import BasicAuthentication as BasicAuthentication
    from magnetar.client.authentication import TlsAuthentication as TlsAuthentication
    from magnetar.client.authentication import TlsPolicy as TlsPolicy
    from magnetar.client.authentication import TokenAuthentication as Token
    from magnetar.client.authentication import TokenAuthentication as TokenAuthentication
    from magnetar.client.blocking_client import LayoutChanges as LayoutChanges
    from magnetar.client.blocking_client import PulsarClient as PulsarClient
    from magnetar.client.blocking_client import TableView as TableView
    from magnetar.client.blocking_client import Transaction as Transaction
    from magnetar.client.blocking_consumer import CheckpointConsumer as CheckpointConsumer
    from magnetar.client.blocking_consumer import Consumer as Consumer
    from magnetar.client.blocking_consumer import QueueConsumer as QueueConsumer
    from magnetar.client.blocking_consumer import Reader as Reader
    from magnetar.client.blocking_consumer import StreamConsumer as StreamConsumer
    from magnetar.client.blocking_producer import Producer as Producer
    from magnetar.client.checkpoint import Checkpoint as Checkpoint
    from magnetar.client.checkpoint_consumer import (
        AsyncCheckpointConsumer as AsyncCheckpointConsumer,
    )
    from magnetar.client.client import AsyncPulsarClient as AsyncPulsarClient
    from magnetar.client.client import lifespan as lifespan
    from magnetar.client.consumer import AsyncConsumer as AsyncConsumer
    from magnetar.client.consumer import AsyncQueueConsumer as AsyncQueueConsumer
    from magnetar.client.encryption import ConsumerEncryption as ConsumerEncryption
    from magnetar.client.encryption import EncryptionKey as EncryptionKey
    from magnetar.client.encryption import KeyProvider as KeyProvider
    from magnetar.client.encryption import PemKeys as PemKeys
    from magnetar.client.encryption import ProducerEncryption as ProducerEncryption
    from magnetar.client.error import AdminConflict as AdminConflict
    from magnetar.client.error import AdminError as AdminError
    from magnetar.client.error import AdminNotAllowed as AdminNotAllowed
    from magnetar.client.error import AdminNotFound as AdminNotFound
    from magnetar.client.error import AdminPreconditionFailed as AdminPreconditionFailed
    from magnetar.client.error import AdminUnreachable as AdminUnreachable
    from magnetar.client.error import AlreadyClosedError as AlreadyClosedError
    from magnetar.client.error import AuthenticationError as AuthenticationError
    from magnetar.client.error import AuthorizationError as AuthorizationError
    from magnetar.client.error import ConfigurationError as ConfigurationError
    from magnetar.client.error import ConnectError as ConnectError
    from magnetar.client.error import ConsumerBusyError as ConsumerBusyError
    from magnetar.client.error import CoordinatorUnavailableError as CoordinatorUnavailableError
    from magnetar.client.error import CryptoError as CryptoError
    from magnetar.client.error import FeatureNotSupportedError as FeatureNotSupportedError
    from magnetar.client.error import InvalidMessageError as InvalidMessageError
    from magnetar.client.error import NotAllowedError as NotAllowedError
    from magnetar.client.error import NotFoundError as NotFoundError
    from magnetar.client.error import ProducerBusyError as ProducerBusyError
    from magnetar.client.error import ProducerFencedError as ProducerFencedError
    from magnetar.client.error import PulsarError as PulsarError
    from magnetar.client.error import PulsarTimeoutError as PulsarTimeoutError
    from magnetar.client.error import QueueFullError as QueueFullError
    from magnetar.client.error import QuotaExceededError as QuotaExceededError
    from magnetar.client.error import SchemaError as SchemaError
    from magnetar.client.error import SendFailedError as SendFailedError
    from magnetar.client.error import TopicTerminatedError as TopicTerminatedError
    from magnetar.client.error import TransactionConflictError as TransactionConflictError
    from magnetar.client.error import TransactionError as TransactionError
    from magnetar.client.error import TransactionNotFoundError as TransactionNotFoundError
    from magnetar.client.error import TransactionTimedOutError as TransactionTimedOutError
    from magnetar.client.error import UnavailableError as UnavailableError
    from magnetar.client.error import WrongPortError as WrongPortError
    from magnetar.client.event import ConnectionLost as ConnectionLost
    from magnetar.client.event import ConnectionOpened as ConnectionOpened
    from magnetar.client.event import Event as Event
    from magnetar.client.event import LayoutChange as LayoutChange
    from magnetar.client.event import SegmentsAssigned as SegmentsAssigned
    from magnetar.client.handle import ConsumerStats as ConsumerStats
    from magnetar.client.handle import Opening as Opening
    from magnetar.client.handle import ProducerStats as ProducerStats
    from magnetar.client.interceptor import ConsumerInterceptor as ConsumerInterceptor
    from magnetar.client.interceptor import ProducerInterceptor as ProducerInterceptor
    from magnetar.client.layout import AsyncLayoutChanges as AsyncLayoutChanges
    from magnetar.client.message import Message as Message
    from magnetar.client.message import MessageBatch as MessageBatch
    from magnetar.client.message_id import EARLIEST_ID as EARLIEST_ID
    from magnetar.client.message_id import LATEST_ID as LATEST_ID
    from magnetar.client.message_id import MessageId as MessageId
    from magnetar.client.policy import BackoffPolicy as BackoffPolicy
    from magnetar.client.policy import BatchingPolicy as BatchingPolicy
    from magnetar.client.policy import ConnectionPolicy as ConnectionPolicy
    from magnetar.client.policy import DeadLetterPolicy as DeadLetterPolicy
    from magnetar.client.producer import AsyncProducer as AsyncProducer
    from magnetar.client.publication import SendOptions as SendOptions
    from magnetar.client.reader import AsyncReader as AsyncReader
    from magnetar.client.reader import AsyncTableView as AsyncTableView
    from magnetar.client.schema.generic import GenericRecord as GenericRecord
    from magnetar.client.schema.key_value import KeyValue as KeyValue
    from magnetar.client.schema.schema import Schema as Schema
    from magnetar.client.schema.shape import AvroType as AvroType
    from magnetar.client.stream import AsyncStreamConsumer as AsyncStreamConsumer
    from magnetar.client.subscription import SubscriptionType as SubscriptionType
    from magnetar.client.telemetry import OpenTelemetry as OpenTelemetry
    from magnetar.client.telemetry import PrometheusTelemetry as PrometheusTelemetry
    from magnetar.client.telemetry import Telemetry as Telemetry
    from magnetar.client.transaction import AsyncTransaction as AsyncTransaction
    from magnetar.client.transaction import TransactionId as TransactionId
    from magnetar.client.transaction import TransactionState as TransactionState
    from magnetar.errors import MagnetarError as MagnetarError

__version__ = "0.1.0"

_HOMES = {  # the module, and the name there if it is another
    "Admin": "client.admin.blocking:AdminClient",
    "AsyncAdmin": "client.admin.service",
    "AdminConflict": "client.error",
    "AdminError": "client.error",
    "AdminNotAllowed": "client.error",
    "AdminNotFound": "client.error",
    "AdminPreconditionFailed": "client.error",
    "AdminUnreachable": "client.error",
    "OpenTelemetry": "client.telemetry",
    "PrometheusTelemetry": "client.telemetry",
    "Telemetry": "client.telemetry",
    "AlreadyClosedError": "client.error",
    "AsyncCheckpointConsumer": "client.checkpoint_consumer",
    "AsyncConsumer": "client.consumer",
    "AsyncLayoutChanges": "client.layout",
    "AsyncProducer": "client.producer",
    "AsyncPulsarClient": "client.client",
    "AsyncQueueConsumer": "client.consumer",
    "AsyncReader": "client.reader",
    "AsyncStreamConsumer": "client.stream",
    "AsyncTableView": "client.reader",
    "Authentication": "client.authentication",
    "AuthenticationError": "client.error",
    "AuthorizationError": "client.error",
    "AvroType": "client.schema.shape",
    "BackoffPolicy": "client.policy",
    "BasicAuthentication": "client.authentication",
    "BatchingPolicy": "client.policy",
    "Checkpoint": "client.checkpoint",
    "CheckpointConsumer": "client.blocking_consumer",
    "ConfigurationError": "client.error",
    "ConnectError": "client.error",
    "ConnectionPolicy": "client.policy",
    "Consumer": "client.blocking_consumer",
    "ConsumerBusyError": "client.error",
    "ConsumerEncryption": "client.encryption",
    "ConsumerInterceptor": "client.interceptor",
    "ConsumerStats": "client.handle",
    "CryptoError": "client.error",
    "DeadLetterPolicy": "client.policy",
    "EARLIEST_ID": "client.message_id",
    "EncryptionKey": "client.encryption",
    "FeatureNotSupportedError": "client.error",
    "GenericRecord": "client.schema.generic",
    "InvalidMessageError": "client.error",
    "KeyProvider": "client.encryption",
    "KeyValue": "client.schema.key_value",
    "LATEST_ID": "client.message_id",
    "LayoutChange": "client.event",
    "LayoutChanges": "client.blocking_client",
    "ConnectionLost": "client.event",
    "ConnectionOpened": "client.event",
    "Event": "client.event",
    "SegmentsAssigned": "client.event",
    "MagnetarError": "errors",
    "lifespan": "client.client",
    "Message": "client.message",
    "MessageBatch": "client.message",
    "MessageId": "client.message_id",
    "NotAllowedError": "client.error",
    "NotFoundError": "client.error",
    "Opening": "client.handle",
    "PemKeys": "client.encryption",
    "SendOptions": "client.publication",
    "Producer": "client.blocking_producer",
    "ProducerBusyError": "client.error",
    "ProducerEncryption": "client.encryption",
    "ProducerFencedError": "client.error",
    "ProducerInterceptor": "client.interceptor",
    "ProducerStats": "client.handle",
    "PulsarClient": "client.blocking_client",
    "PulsarError": "client.error",
    "PulsarTimeoutError": "client.error",
    "QueueConsumer": "client.blocking_consumer",
    "QueueFullError": "client.error",
    "QuotaExceededError": "client.error",
    "Reader": "client.blocking_consumer",
    "Schema": "client.schema.schema",
    "SchemaError": "client.error",
    "SendFailedError": "client.error",
    "StreamConsumer": "client.blocking_consumer",
    "SubscriptionType": "client.subscription",
    "TableView": "client.blocking_client",
    "TlsAuthentication": "client.authentication",
    "TlsPolicy": "client.authentication",
    "TokenAuthentication": "client.authentication",
    "TopicTerminatedError": "client.error",
    "TransactionConflictError": "client.error",
    "TransactionError": "client.error",
    "UnavailableError": "client.error",
    "WrongPortError": "client.error",
    "AsyncTransaction": "client.transaction",
    "Transaction": "client.blocking_client",
    "TransactionState": "client.transaction",
    "TransactionId": "client.transaction",
    "TransactionNotFoundError": "client.error",
    "TransactionTimedOutError": "client.error",
    "CoordinatorUnavailableError": "client.error",
}
_OTHER_NAMES = (("Token", "client.authentication:TokenAuthentication"),)
_HOMES.update(_OTHER_NAMES)

__all__ = [
    "EARLIEST_ID",
    "LATEST_ID",
    "Admin",
    "AdminConflict",
    "AdminError",
    "AdminNotAllowed",
    "AdminNotFound",
    "AdminPreconditionFailed",
    "AdminUnreachable",
    "AlreadyClosedError",
    "AsyncAdmin",
    "AsyncCheckpointConsumer",
    "AsyncConsumer",
    "AsyncLayoutChanges",
    "AsyncProducer",
    "AsyncPulsarClient",
    "AsyncQueueConsumer",
    "AsyncReader",
    "AsyncStreamConsumer",
    "AsyncTableView",
    "AsyncTransaction",
    "Authentication",
    "AuthenticationError",
    "AuthorizationError",
    "AvroType",
    "BackoffPolicy",
    "BasicAuthentication",
    "BatchingPolicy",
    "Checkpoint",
    "CheckpointConsumer",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLost",
    "ConnectionOpened",
    "ConnectionPolicy",
    "Consumer",
    "ConsumerBusyError",
    "ConsumerEncryption",
    "ConsumerInterceptor",
    "ConsumerStats",
    "CoordinatorUnavailableError",
    "CryptoError",
    "DeadLetterPolicy",
    "EncryptionKey",
    "Event",
    "FeatureNotSupportedError",
    "GenericRecord",
    "InvalidMessageError",
    "KeyProvider",
    "KeyValue",
    "LayoutChange",
    "LayoutChanges",
    "MagnetarError",
    "Message",
    "MessageBatch",
    "MessageId",
    "NotAllowedError",
    "NotFoundError",
    "OpenTelemetry",
    "Opening",
    "PemKeys",
    "Producer",
    "ProducerBusyError",
    "ProducerEncryption",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerStats",
    "PrometheusTelemetry",
    "PulsarClient",
    "PulsarError",
    "PulsarTimeoutError",
    "QueueConsumer",
    "QueueFullError",
    "QuotaExceededError",
    "Reader",
    "Schema",
    "SchemaError",
    "SegmentsAssigned",
    "SendFailedError",
    "SendOptions",
    "StreamConsumer",
    "SubscriptionType",
    "TableView",
    "Telemetry",
    "TlsAuthentication",
    "TlsPolicy",
    "Token",
    "TokenAuthentication",
    "TopicTerminatedError",
    "Transaction",
    "TransactionConflictError",
    "TransactionError",
    "TransactionId",
    "TransactionNotFoundError",
    "TransactionState",
    "TransactionTimedOutError",
    "UnavailableError",
    "WrongPortError",
    "__version__",
    "lifespan",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, inside = home.partition(":")
    found = getattr(importlib.import_module(f"{__name__}.{module}"), inside or name)
    _adopt_loaded()
    globals()[name] = found
    return found


def _adopt_loaded() -> None:
    """What applications see printed and pickled is named as they write it. The annotations of a
    class are read in its module: one that has some keeps that, unless it is an error.
    """
    for name, home in _HOMES.items():
        module = sys.modules.get(f"{__name__}.{home}")
        found = vars(module).get(name) if module is not None else None
        if isinstance(found, type) and (
            issubclass(found, Exception) or not vars(found).get("__annotations__")
        ):
            found.__module__ = __name__


def __dir__() -> list[str]:
    return __all__
