"""Small commands that ask for much work: ack sets, batches, hash ranges, ids."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.ledger.ackset import AckSet
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart
from magnetar.wire import command as wire
from magnetar.wire.ackset import full_ack_set
from magnetar.wire.command import MessageMetadata, encode_payload_command, make_command
from magnetar.wire.entry import count_messages, encode_entry
from tests.hostile.test_permission_matrix import Peer, code_of
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker

TOPIC = "persistent://public/default/x"


def batch(claimed: int) -> bytes:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=claimed
    )
    return encode_entry(metadata, b"x")


def send(claimed: int, told: int) -> bytes:
    command = wire.CommandSend(producer_id=1, sequence_id=0, num_messages=told)
    return encode_payload_command(make_command(command), batch(claimed))


async def subscribed(admin: Admin, kind: Any, **more: Any) -> Peer:
    peer = Peer(admin, None)
    request = wire.CommandSubscribe(
        topic=TOPIC, subscription="s", subType=kind, consumer_id=1, request_id=1, **more
    )
    await peer.ask(request)
    return peer


@pytest.mark.parametrize("told", [2**31 - 1, -1])
def test_a_batch_of_more_messages_than_allowed_is_refused(told: int) -> None:
    async def main() -> None:
        async with admin_of_new_broker(maxMessagesPerBatch="1000") as admin:
            peer = Peer(admin, None)
            await peer.ask(wire.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
            [reply] = await peer.ask(send(told, told))
            assert code_of(reply) == "NotAllowedError"
            assert "maxMessagesPerBatch" in reply.send_error.message
            assert not peer.wire.closed
            [reply] = await peer.ask(send(1000, 1000))
            assert reply.HasField("send_receipt")

    asyncio.run(main())


def test_a_batch_that_claims_billions_of_messages_is_taken_for_a_large_one() -> None:
    assert count_messages(batch(2**31 - 1)) == 1 << 20
    assert full_ack_set(2**31 - 1).bit_length() == 1 << 20

    async def main() -> None:
        async with admin_of_new_broker() as admin:
            peer = Peer(admin, None)
            await peer.ask(wire.CommandProducer(topic=TOPIC, producer_id=1, request_id=1))
            [reply] = await peer.ask(send(2**31 - 1, 1))
            stored = reply.send_receipt.message_id
            await subscribed(admin, wire.CommandSubscribe.Shared)
            reset = f"{V2}/persistent/public/default/x/subscription/s/resetcursor"
            place = {"ledgerId": stored.ledgerId, "entryId": stored.entryId, "batchIndex": 3}
            assert (await admin.post(reset, place)).status in (204, 412)

    asyncio.run(main())


@pytest.mark.parametrize("kind", [wire.CommandSubscribe.Shared, wire.CommandSubscribe.Exclusive])
def test_an_ack_set_of_more_bits_than_a_batch_may_have_is_refused(kind: Any) -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            await admin.put(f"{V2}/persistent/public/default/x")
            peer = await subscribed(admin, kind)
            position = wire.MessageIdData(ledgerId=1, entryId=0, ack_set=[-1] * 10_000)
            ack = wire.CommandAck(
                consumer_id=1, ack_type=wire.CommandAck.Individual, message_id=[position]
            )
            asked = wire.CommandAck()
            asked.CopyFrom(ack)
            asked.request_id = 9
            [reply] = await peer.ask(asked)
            assert code_of(reply) == "NotAllowedError" and reply.ackResponse.request_id == 9
            assert "maxMessagesPerBatch" in reply.ackResponse.message
            seek = wire.CommandSeek(consumer_id=1, request_id=4, message_id=position)
            [reply] = await peer.ask(seek)
            assert code_of(reply) == "NotAllowedError" and reply.error.request_id == 4
            await peer.ask(ack)
            assert peer.wire.closed, "an acknowledgement without an answer cannot be refused"

    asyncio.run(main())


def one_ledger(entries: int) -> LedgerSequence:
    return LedgerSequence().restore([LedgerPart(1, entries, 0, 0)])


def test_an_ack_set_that_an_earlier_version_stored_without_a_limit_is_survived() -> None:
    words = (-1,) * 500_000
    info = CursorInfo(
        ledger_id=-1,
        mark_delete=Position(1, -1),
        batches={Position(1, 0): words, Position(1, 1): (3,)},
    )
    acks = AckSet(one_ledger(10), info)
    assert acks.remaining(1, 0) is None, "the whole batch is delivered again"
    assert acks.batches() == {Position(1, 1): (3,)}


def test_what_a_cursor_keeps_of_batches_is_bounded() -> None:
    acks = AckSet(one_ledger(5000), CursorInfo(-1, Position(1, -1)))
    bits = 1 << 99_999
    taken = [acks.add_batch(1, entry, bits) for entry in range(1, 1000)]
    kept = taken.count(False)
    assert 200 < kept < 500, "the rest is delivered whole"
    acks.add(1, 1, 100)
    assert acks.add_batch(1, 2000, bits) is False, "there is room again"
    assert acks.add_batch(1, 2000, bits | 1) is None
    acks.add_through(Position(1, 4000))
    assert acks.batches() == {}
    assert all(acks.add_batch(1, entry, bits) is False for entry in range(4500, 4700))


def ranges(count: int, step: int = 2, first: int = 0) -> wire.KeySharedMeta:
    spans = [wire.IntRange(start=first + n * step, end=first + n * step) for n in range(count)]
    return wire.KeySharedMeta(keySharedMode=wire.KeySharedMode.STICKY, hashRanges=spans)


def test_hash_ranges_are_counted_and_lie_within_the_ring() -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            kind = wire.CommandSubscribe.Key_Shared
            peer = await subscribed(admin, kind, keySharedMeta=ranges(1001))
            assert code_of(peer.wire.received[-1]) == "NotAllowedError"
            assert "maxHashRangesPerConsumer" in peer.wire.received[-1].error.message
            outside = await subscribed(admin, kind, keySharedMeta=ranges(1, first=65_536))
            assert code_of(outside.wire.received[-1]) == "ConsumerAssignError"
            first = await subscribed(admin, kind, keySharedMeta=ranges(1000))
            assert code_of(first.wire.received[-1]) is None
            second = await subscribed(admin, kind, keySharedMeta=ranges(1000, first=1))
            assert code_of(second.wire.received[-1]) is None
            third = await subscribed(admin, kind, keySharedMeta=ranges(1, first=7))
            for _ in range(100):
                await asyncio.sleep(0)
            assert code_of(third.wire.received[-1]) == "ConsumerAssignError"

    asyncio.run(main())


def test_ids_in_one_command_are_counted() -> None:
    async def main() -> None:
        async with admin_of_new_broker(maxMessageIdsPerCommand="100") as admin:
            peer = await subscribed(admin, wire.CommandSubscribe.Shared)
            ids = [wire.MessageIdData(ledgerId=7, entryId=n) for n in range(100)]
            redeliver = wire.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids)
            await peer.ask(redeliver)
            assert not peer.wire.closed
            redeliver.message_ids.add(ledgerId=7, entryId=100)
            await peer.ask(redeliver)
            assert peer.wire.closed

    asyncio.run(main())
