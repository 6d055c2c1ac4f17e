"""A client that runs transactions step by step, on a broker in the loop of the test."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from magnetar.broker.transaction.participant import Participant
from magnetar.model.position import Position
from magnetar.model.transaction import TransactionId
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandNewTxn,
    CommandSend,
    CommandTcClientConnectRequest,
    MessageMetadata,
    Subscription,
    TxnAction,
    encode_payload_command,
    make_command,
    message_id,
)
from magnetar.wire.entry import encode_entry
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import TOPIC, Client, settle

ENABLED: dict[str, Any] = {
    "transactionCoordinatorEnabled": True,
    "transactionCoordinatorScalableTopicsParallelism": 2,
}


def run_enabled(body: Callable[[Place], Coroutine[Any, Any, None]], **more: Any) -> None:
    run(body, **ENABLED, **more)


class TransactionClient(Client):
    async def connect(self, number: int = 0) -> BaseCommand:
        request = CommandTcClientConnectRequest(tc_id=number)
        return await self.ask(request, BaseCommand.TC_CLIENT_CONNECT_RESPONSE)

    async def begin(self, *, number: int = 0, timeout_ms: int = 60_000) -> TransactionId:
        answer = await self.ask(
            CommandNewTxn(tc_id=number, txn_ttl_millis=timeout_ms), BaseCommand.NEW_TXN_RESPONSE
        )
        response = answer.newTxnResponse
        assert not response.HasField("error"), response.message
        return TransactionId(response.txnid_most_bits, response.txnid_least_bits)

    async def add_topic(self, id_: TransactionId, topic: str = TOPIC) -> int | None:
        request = CommandAddPartitionToTxn(
            txnid_most_bits=id_.most, txnid_least_bits=id_.least, partitions=[topic]
        )
        answer = await self.ask(request, BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE)
        response = answer.addPartitionToTxnResponse
        assert (response.txnid_most_bits, response.txnid_least_bits) == id_
        return response.error if response.HasField("error") else None

    async def add_subscription(
        self, id_: TransactionId, name: str, topic: str = TOPIC
    ) -> int | None:
        request = CommandAddSubscriptionToTxn(
            txnid_most_bits=id_.most,
            txnid_least_bits=id_.least,
            subscription=[Subscription(topic=topic, subscription=name)],
        )
        answer = await self.ask(request, BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)
        response = answer.addSubscriptionToTxnResponse
        return response.error if response.HasField("error") else None

    async def end(self, id_: TransactionId, *, commit: bool) -> int | None:
        request = CommandEndTxn(
            txnid_most_bits=id_.most,
            txnid_least_bits=id_.least,
            txn_action=TxnAction.COMMIT if commit else TxnAction.ABORT,
        )
        answer = await self.ask(request, BaseCommand.END_TXN_RESPONSE)
        response = answer.endTxnResponse
        assert (response.txnid_most_bits, response.txnid_least_bits) == id_
        return response.error if response.HasField("error") else None

    async def commit(self, id_: TransactionId) -> None:
        assert await self.end(id_, commit=True) is None

    async def abort(self, id_: TransactionId) -> None:
        assert await self.end(id_, commit=False) is None

    async def write(
        self,
        id_: TransactionId,
        text: str,
        *,
        producer_id: int = 1,
        sequence: int = 0,
        key: str = "",
        in_metadata: bool = True,
    ) -> Position | int:
        """Where the message stands, or why it was refused."""
        metadata = MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
        if key:
            metadata.partition_key = key
        if in_metadata:
            metadata.txnid_most_bits, metadata.txnid_least_bits = id_
        send = CommandSend(
            producer_id=producer_id,
            sequence_id=sequence,
            txnid_most_bits=id_.most,
            txnid_least_bits=id_.least,
        )
        receipts = self.count(BaseCommand.SEND_RECEIPT)
        errors = self.count(BaseCommand.SEND_ERROR)
        entry = encode_entry(metadata, text.encode())
        self._connection.data_received(encode_payload_command(make_command(send), entry))
        await until(
            lambda: (
                self.count(BaseCommand.SEND_RECEIPT) > receipts
                or self.count(BaseCommand.SEND_ERROR) > errors
            )
        )
        if self.count(BaseCommand.SEND_ERROR) > errors:
            return self.received(BaseCommand.SEND_ERROR)[-1].send_error.error
        receipt = self.received(BaseCommand.SEND_RECEIPT)[-1].send_receipt.message_id
        return Position(receipt.ledgerId, receipt.entryId)

    async def ack_in(
        self,
        id_: TransactionId,
        consumer_id: int,
        *positions: tuple[int, int],
        cumulative: bool = False,
        remaining: int | None = None,
        size: int = 0,
    ) -> int | None:
        """None, or why it was refused."""
        ids = [message_id(Position(*position)) for position in positions]
        for each in ids:
            if remaining is not None:
                each.ack_set.extend(encode_ack_set(remaining))
                each.batch_size = size
        kind = CommandAck.Cumulative if cumulative else CommandAck.Individual
        request = CommandAck(
            consumer_id=consumer_id,
            ack_type=kind,
            message_id=ids,
            txnid_most_bits=id_.most,
            txnid_least_bits=id_.least,
        )
        answer = await self.ask(request, BaseCommand.ACK_RESPONSE)
        response = answer.ackResponse
        return response.error if response.HasField("error") else None


async def participant(place: Place, topic: str = TOPIC) -> Participant:
    found = (await place.topic(topic)).transactions
    assert isinstance(found, Participant)
    return found


__all__ = [
    "ENABLED",
    "TOPIC",
    "Place",
    "TransactionClient",
    "participant",
    "run_enabled",
    "settle",
    "until",
]
