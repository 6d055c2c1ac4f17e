"""Values of a kind that cannot be: refused where they are given, not where they are first used."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from magnetar.client.encryption import ConsumerEncryption, ProducerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.policy import (
    BackoffPolicy,
    BatchingPolicy,
    ConnectionPolicy,
    DeadLetterPolicy,
)
from magnetar.client.tls import TlsPolicy

_Kinds = tuple[type[Any], ...]

_TEXT: Final[tuple[_Kinds, str]] = ((str,), "text")
_NUMBER: Final[tuple[_Kinds, str]] = ((int,), "a whole number")
_SWITCH: Final[tuple[_Kinds, str]] = ((bool,), "True or False")
_TEXTS: Final[tuple[_Kinds, str]] = ((Mapping,), "a mapping of text to text")
_BACKOFF: Final[tuple[_Kinds, str]] = ((BackoffPolicy,), "a BackoffPolicy(initial, maximum)")

_KINDS: Final[Mapping[str, tuple[_Kinds, str]]] = {
    "name": _TEXT,
    "initial_subscription": _TEXT,
    "group": _TEXT,
    "listener_name": _TEXT,
    "description": _TEXT,
    "max_pending_messages": _NUMBER,
    "initial_sequence_id": _NUMBER,
    "receiver_queue_size": _NUMBER,
    "priority": _NUMBER,
    "ack_group_size": _NUMBER,
    "block_if_queue_full": _SWITCH,
    "ack_receipts": _SWITCH,
    "batch_index_acks": _SWITCH,
    "read_compacted": _SWITCH,
    "replicate_subscription_state": _SWITCH,
    "start_included": _SWITCH,
    "properties": _TEXTS,
    "subscription_properties": _TEXTS,
    "property_filters": _TEXTS,
    "nack_backoff": _BACKOFF,
    "processing_timeout_backoff": _BACKOFF,
    "batching": ((bool, BatchingPolicy), "True, False or a BatchingPolicy"),
    "dead_letter": ((DeadLetterPolicy,), "a DeadLetterPolicy(max_redeliveries)"),
    "encryption": (
        (ProducerEncryption, ConsumerEncryption),
        "a ProducerEncryption(keys, names), or for consumers a ConsumerEncryption(keys)",
    ),
    "interceptors": ((Iterable,), "a list of interceptors"),
    "columns": ((Iterable,), "a list of the names of columns"),
    "connection": ((ConnectionPolicy,), "a ConnectionPolicy"),
    "tls": ((TlsPolicy, ssl.SSLContext), "a TlsPolicy or an ssl.SSLContext"),
}


def check_kinds(options: Mapping[str, Any]) -> None:
    """None stands for the default everywhere."""
    for word, value in options.items():
        if value is None or word not in _KINDS:
            continue
        kinds, phrase = _KINDS[word]
        is_disguised = isinstance(value, bool) and bool not in kinds  # nobody counts with True
        if not isinstance(value, kinds) or is_disguised:
            raise ConfigurationError(f"{word} is {phrase}, not {value!r}")
        if kinds == _TEXTS[0]:
            check_texts(word, value)
        elif kinds == _TEXT[0]:
            check_text(word, value)


def check_texts(what: str, texts: Mapping[Any, Any]) -> None:
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"{what} is a mapping of text to text, not of {key!r} to {value!r}"
            )
        if not (key.isascii() and value.isascii()):
            check_text(what, key)
            check_text(what, value)


def check_text(what: str, text: str) -> None:
    """Half a character cannot be sent; what is plain ASCII costs nothing to check."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"{what} is not whole Unicode text: {text!r}") from None


def check_authentication(given: object) -> None:
    if given is not None and not (hasattr(given, "method_name") and hasattr(given, "auth_data")):
        raise ConfigurationError(
            "authentication is an object such as TokenAuthentication(token), not"
            f" a {type(given).__name__}"
        )
