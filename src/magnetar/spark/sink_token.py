"""The token of a write: one message that tells which batch was committed last.

A transaction that commits a batch acknowledges the token and sends the next one. So there is one
token at any time, as long as the write lives. A driver that repeats a committed batch finds that in
the token. Of two drivers of one write, one acknowledges the token; the other has a conflict and
commits nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import Final

from magnetar import (
    Admin,
    AdminNotFound,
    AsyncPulsarClient,
    AsyncTransaction,
    Checkpoint,
    ProducerBusyError,
    TransactionConflictError,
)
from magnetar.errors import MagnetarError
from magnetar.spark.access import open_admin
from magnetar.spark.sink_option import SinkOptions
from magnetar.spark.sink_topic import prepare_topic

SUBSCRIPTION: Final = "driver"
_FIRST: Final = "first"
"""Under this name the first token is sent, however often that is tried."""


class TokenHeld(MagnetarError):
    """Another driver commits a batch of the same write, or the token was deleted."""


def token_topic(options: SinkOptions, write: str) -> str:
    """Of a streaming query, by its id; of a batch write, by its writeId, which may be any text."""
    name = hashlib.sha256(write.encode()).hexdigest()[:32]
    return f"topic://{options.transaction_namespace}/spark-token-{name}"


async def commit_once(
    client: AsyncPulsarClient,
    options: SinkOptions,
    transaction: AsyncTransaction,
    write: str,
    batch: int,
) -> bool:
    """Commit a batch; abort its transaction and return False when it was committed before."""
    topic = token_topic(options, write)
    await asyncio.to_thread(_prepare, options, topic)
    async with client.queue_consumer(
        topic, subscription=SUBSCRIPTION, initial_position="earliest"
    ) as consumer:
        await _send_first(client, topic)
        token = await consumer.receive(options.broker.timeout_s)
        if token is None:
            raise TokenHeld(
                f"{topic} gave no token in {options.broker.timeout_s:.0f} s: another driver of this"
                " write holds it, or its message was deleted. The batch is not committed. A token"
                " comes back when its transaction ends; without a topic, the write begins anew"
            )
        if json.loads(token.value)["batch"] >= batch:
            await transaction.abort()
            return False
        following = json.dumps({"batch": batch, "transaction": str(transaction.id)})
        try:
            await consumer.acknowledge(token, transaction=transaction)
            async with client.producer(topic) as producer:
                await producer.send(following.encode(), transaction=transaction)
            await transaction.commit()
        except TransactionConflictError as error:
            raise TokenHeld(
                f"Another driver commits a batch of this write: {error.sentence}"
            ) from error
        return True


async def _send_first(client: AsyncPulsarClient, topic: str) -> None:
    """A token is never trimmed before its successor is there: without any, none was ever sent.
    Of drivers that find this at the same time, one has the name, and the other's is a duplicate.
    """
    async with client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST) as reader:
        if await reader.has_message_available():
            return
    with suppress(ProducerBusyError):
        async with client.producer(topic, name=_FIRST, batching=False) as producer:
            await producer.send(json.dumps({"batch": -1}).encode(), sequence_id=0)


def _prepare(options: SinkOptions, topic: str) -> None:
    broker = options.broker
    with open_admin(broker.admin_url, broker.access, timeout_s=broker.timeout_s) as admin:
        prepare_topic(admin, replace(options, enable_deduplication=True), topic)
        _keep(admin, topic)


def _keep(admin: Admin, topic: str) -> None:
    """Whatever the namespace lets expire."""
    try:
        if admin.topic_policies.get(topic, "message-ttl") != 0:
            admin.topic_policies.set(topic, "message-ttl", 0)
    except AdminNotFound:
        pass  # Apache Pulsar has no policies of scalable topics
