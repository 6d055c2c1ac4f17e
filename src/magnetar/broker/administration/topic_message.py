"""Messages of a topic: their ids, and the entries that hold them."""

from __future__ import annotations

from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.administration.topic import check_not_partitioned, find_persistent
from magnetar.broker.service import Service
from magnetar.errors import EntryNotFound, NotFound, PreconditionFailed
from magnetar.model.message_id import MessageId, describe_position
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, Position


@carries_out("topics.backlog_size")
async def get_backlog_size(service: Service, topic: TopicName, position: MessageId) -> int:
    chain = (await find_persistent(service, topic, "Backlog size")).chain
    after, end = position.position, chain.next_position(chain.last_position)
    if after == EARLIEST:
        return chain.total_bytes
    return 0 if after >= end else chain.bytes_between(chain.next_position(after), end)


@carries_out("topics.last_message_id")
async def get_last_message_id(service: Service, topic: TopicName) -> Document:
    found = await find_persistent(service, topic, "GetLastMessageId")
    position, batch_index = await found.last_message_id()
    if position == EARLIEST:
        position = found.chain.last_position
    return describe_position(
        position, partition_index=topic.partition_index, batch_index=batch_index
    )


@carries_out("topics.message_id_at")
async def get_message_id_at(service: Service, topic: TopicName, timestamp_ms: int) -> Document:
    what = "Get message ID by timestamp"
    if topic.is_persistent:
        await check_not_partitioned(service, topic, f"{what} on a partitioned topic is not allowed")
    found = await find_persistent(service, topic, what)
    position = EARLIEST
    if found.chain.total_entries:
        position = await found.position_at(timestamp_ms)
    return describe_position(position, partition_index=topic.partition_index)


@carries_out("topics.read_entry")
async def read_entry(
    service: Service, topic: TopicName, ledger_id: int, entry_id: int
) -> tuple[Position, bytes]:
    what, position = "GetMessageById", Position(ledger_id, entry_id)
    await check_not_partitioned(service, topic, f"{what} is not allowed on partitioned-topic")
    found = await find_persistent(service, topic, what)
    try:
        return position, await found.read_entry(position)
    except EntryNotFound:
        raise NotFound("Message id not found") from None


@carries_out("topics.examine")
async def examine(
    service: Service, topic: TopicName, initial_position: str, message_position: int
) -> tuple[Position, bytes]:
    """The nth entry from the start, or from the end; beyond the other end counts as the end."""
    what = "Examine messages"
    if topic.is_persistent:
        await check_not_partitioned(service, topic, f"{what} on a partitioned topic is not allowed")
    found = await find_persistent(service, topic, what)
    total = found.chain.total_entries
    if total == 0:
        raise PreconditionFailed("Could not examine messages due to the total message is zero")
    if initial_position not in ("earliest", "latest"):
        raise PreconditionFailed(f"initialPosition is earliest or latest, not {initial_position!r}")
    number = min(max(message_position, 1), total)
    ordinal = number - 1 if initial_position == "earliest" else total - number
    position = found.chain.position_after(found.chain.first_position, ordinal)
    return position, await found.read_entry(position)
