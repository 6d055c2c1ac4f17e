"""Whole topics at once: entries as they are stored, Arrow columns, and writes that can be repeated.

Each name is loaded when it is first used: some need pyarrow, which comes with an extra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magnetar.client.cipher_loader import make_decrypt as make_decrypt
    from magnetar.client.quantity import parse_size as parse_size
    from magnetar.client.schema.avro import parse_definition as parse_definition
    from magnetar.client.schema.avro import read_resolved as read_resolved
    from magnetar.client.transaction import JoinedTransaction as JoinedTransaction
    from magnetar.columns.arrow import INSTANT as INSTANT
    from magnetar.columns.arrow import make_numbers as make_numbers
    from magnetar.columns.arrow import make_texts as make_texts
    from magnetar.columns.bulk import AsyncBulk as AsyncBulk
    from magnetar.columns.column import ChunkUnbegun as ChunkUnbegun
    from magnetar.columns.column import ColumnDecoder as ColumnDecoder
    from magnetar.columns.column import Decrypt as Decrypt
    from magnetar.columns.column import EntryEncrypted as EntryEncrypted
    from magnetar.columns.column import EntryUnreadable as EntryUnreadable
    from magnetar.columns.entry_reader import AsyncEntryReader as AsyncEntryReader
    from magnetar.columns.entry_reader import StoredEntry as StoredEntry
    from magnetar.columns.resumable import AsyncResumableProducer as AsyncResumableProducer
    from magnetar.columns.sheet import Sheet as Sheet
    from magnetar.columns.sheet import make_sheet as make_sheet

_HOMES = {
    "AsyncBulk": "columns.bulk",
    "AsyncEntryReader": "columns.entry_reader",
    "AsyncResumableProducer": "columns.resumable",
    "ChunkUnbegun": "columns.column",
    "ColumnDecoder": "columns.column",
    "Decrypt": "columns.column",
    "EntryEncrypted": "columns.column",
    "EntryUnreadable": "columns.column",
    "INSTANT": "columns.arrow",
    "JoinedTransaction": "client.transaction",
    "Sheet": "columns.sheet",
    "StoredEntry": "columns.entry_reader",
    "make_decrypt": "client.cipher_loader",
    "make_numbers": "columns.arrow",
    "make_sheet": "columns.sheet",
    "make_texts": "columns.arrow",
    "parse_definition": "client.schema.avro",
    "parse_size": "client.quantity",
    "read_resolved": "client.schema.avro",
}

__all__ = [
    "INSTANT",
    "AsyncBulk",
    "AsyncEntryReader",
    "AsyncResumableProducer",
    "ChunkUnbegun",
    "ColumnDecoder",
    "Decrypt",
    "EntryEncrypted",
    "EntryUnreadable",
    "JoinedTransaction",
    "Sheet",
    "StoredEntry",
    "make_decrypt",
    "make_numbers",
    "make_sheet",
    "make_texts",
    "parse_definition",
    "parse_size",
    "read_resolved",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"magnetar.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "magnetar":
            raise
        raise ModuleNotFoundError(
            f"magnetar.columns.{name} needs {error.name}, which is not installed;"
            " install it with: pip install 'magnetar[spark]'",
            name=error.name,
        ) from None


def __dir__() -> list[str]:
    return __all__
