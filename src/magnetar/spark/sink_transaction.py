"""The transaction of a batch: begun and ended by the driver, joined by tasks.

Spark starts a process on the driver to plan a batch, and another to commit or abort it. Between the
two the transaction is known by its id alone, which tasks report with their results.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from magnetar import AsyncPulsarClient, FeatureNotSupportedError, NotAllowedError, PulsarError
from magnetar.columns import AsyncBulk
from magnetar.errors import MagnetarError
from magnetar.model.transaction import TransactionId
from magnetar.spark.pool import make_client
from magnetar.spark.sink_option import SinkOptions
from magnetar.spark.sink_token import commit_once

T = TypeVar("T")


class TransactionsOff(MagnetarError):
    """The broker has none, or none that can span the topics of the write."""


def begin_batch(options: SinkOptions) -> TransactionId:
    """Begin the transaction of a batch, after the one that a failed attempt may have left."""

    async def body(client: AsyncPulsarClient) -> TransactionId:
        left = take_note(options)
        if left is not None:
            await _abort(client, left)
        try:
            return await AsyncBulk(client).begin_transaction(options.transaction_timeout_s)
        except (FeatureNotSupportedError, NotAllowedError) as error:
            raise TransactionsOff(
                f"The transaction of the batch is refused: {error.sentence}. Brokers need"
                " transactionCoordinatorEnabled=true, and maxTransactionTimeoutMillis must allow"
                " for transactionTimeout"
            ) from error

    begun = _run(options, body)
    _note(options, begun)
    return begun


def commit_batch(options: SinkOptions, id_: TransactionId, write: str | None, batch: int) -> bool:
    """Commit what its tasks wrote, unless an earlier attempt of the batch was committed; tell
    whether it was this one. Without a name of the write, that is not known.
    """

    async def body(client: AsyncPulsarClient) -> bool:
        transaction = await AsyncBulk(client).take_over_transaction(id_)
        if write is not None:
            return await commit_once(client, options, transaction, write, batch)
        await transaction.commit()
        return True

    is_first = _run(options, body)
    take_note(options)
    return is_first


def abort_batch(options: SinkOptions, id_: TransactionId | None) -> None:
    """None when no task has told it."""
    noted = take_note(options)
    known = noted if id_ is None else id_
    if known is not None:
        _run(options, lambda client: _abort(client, known))


async def _abort(client: AsyncPulsarClient, id_: TransactionId) -> None:
    with suppress(PulsarError):  # it has ended, or ends at its time-out
        await (await AsyncBulk(client).take_over_transaction(id_)).abort()


def _run(options: SinkOptions, body: Callable[[AsyncPulsarClient], Coroutine[Any, Any, T]]) -> T:
    async def call() -> T:
        async with make_client(options.broker) as client:
            return await body(client)

    with asyncio.Runner() as runner:
        return runner.run(call())


# ---------------------------------------------------------------------- on the driver's machine
# When all tasks of a batch fail, Spark hands no result to the process that aborts it. A note on
# disk tells that one, or the next driver on this machine, which transaction to abort. Without it
# readers wait for the time-out.


def _note(options: SinkOptions, id_: TransactionId) -> None:
    place = _place_of(options)
    if place is not None:
        with suppress(OSError):
            place.parent.mkdir(mode=0o700, exist_ok=True)
            if place.parent.stat().st_uid == os.getuid():
                place.write_text(f"{id_.most} {id_.least}")


def take_note(options: SinkOptions) -> TransactionId | None:
    """Read the note, and remove it."""
    place = _place_of(options)
    if place is None:
        return None
    try:
        if place.stat().st_uid != os.getuid():
            return None
        most, least = place.read_text().split()
        place.unlink()
        return TransactionId(int(most), int(least))
    except (OSError, ValueError):
        return None


def _place_of(options: SinkOptions) -> Path | None:
    if options.query_place is None:
        return None
    told = f"{options.broker.service_url} {options.query_place}"
    name = hashlib.sha256(told.encode()).hexdigest()[:32]
    return Path(tempfile.gettempdir()) / f"magnetar-sink-{os.getuid()}" / name
