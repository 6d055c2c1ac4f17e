"""Ledgers in files: a group-committed journal for all of them, and a file of its own for each one
that is settled."""

from magnetar.ledger.backends.file.check import check_ledgers
from magnetar.ledger.backends.file.disk import AppendFile, Disk, SystemDisk
from magnetar.ledger.backends.file.finding import Finding, FindingKind
from magnetar.ledger.backends.file.part import read_sealed
from magnetar.ledger.backends.file.store import FileLedgerStore, open_file_store
from magnetar.ledger.backends.file.usage import FilePolicy
from magnetar.ledger.backends.file.witness import MetadataWitness, parse_witness

__all__ = [
    "AppendFile",
    "Disk",
    "FileLedgerStore",
    "FilePolicy",
    "Finding",
    "FindingKind",
    "MetadataWitness",
    "SystemDisk",
    "check_ledgers",
    "open_file_store",
    "parse_witness",
    "read_sealed",
]
