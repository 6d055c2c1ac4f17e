"""Acknowledgements that wait to be sent together, and batches of which some messages are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId
from magnetar.wire.ackset import encode_ack_set, full_ack_set
from magnetar.wire.command import CommandAck, MessageIdData, message_id

ALL: Final = -1
"""Every message of the entry remains, however many there are."""
WHOLE: Final = 0
"""No message of the entry remains."""


class AckGroup:
    """Sans-IO: add what is done, take the commands that say so.

    An entry is acknowledged when all its messages are. With `by_index` the broker also hears which
    messages of a batch remain.
    """

    def __init__(self, *, by_index: bool) -> None:
        self._by_index = by_index
        self._individual: dict[MessageId, int] = {}
        self._cumulative: MessageId | None = None
        self._cumulative_remaining = WHOLE
        self._remaining: dict[MessageId, int] = {}

    def __len__(self) -> int:
        return len(self._individual) + (self._cumulative is not None)

    def on_delivered(self, entry: MessageId, unacknowledged: int) -> int:
        """A batch came once more (0: all of it); return what is left of it, without what was
        acknowledged while it was on its way.
        """
        left = self._remaining.get(entry, ALL) & (unacknowledged or ALL)
        if left != ALL:
            self._remaining[entry] = left
        return left

    def add(self, id: MessageId) -> None:
        entry = id.entry
        if id.batch_index < 0:
            self._individual[entry] = WHOLE
            return
        remaining = self._remaining.get(entry)
        if remaining is None:
            remaining = full_ack_set(_batch_size(id))
        remaining &= ~(1 << id.batch_index)
        if remaining == WHOLE:
            self._remaining.pop(entry, None)
            self._individual[entry] = WHOLE
        else:
            self._remaining[entry] = remaining
            if self._by_index:
                self._individual[entry] = remaining

    def add_cumulative(self, id: MessageId) -> None:
        """Everything up to and including `id` is done; never goes back."""
        remaining = WHOLE
        target = id.entry
        if id.batch_index >= 0:
            remaining = full_ack_set(_batch_size(id)) & ~full_ack_set(id.batch_index + 1)
            if remaining and not self._by_index:
                target = MessageId(id.ledger_id, id.entry_id - 1, id.partition)
                remaining = WHOLE
        if self._cumulative is not None:
            if self._cumulative > target:
                return
            if self._cumulative == target:
                remaining &= self._cumulative_remaining
        self._cumulative, self._cumulative_remaining = target, remaining
        for done in [entry for entry in self._individual if entry < target]:
            del self._individual[done]
        for done in [entry for entry in self._remaining if entry < target]:
            del self._remaining[done]

    def take(self, consumer_id: int) -> list[CommandAck]:
        commands = []
        if self._cumulative is not None:
            ids = [encode_ack_id(self._cumulative, self._cumulative_remaining)]
            commands.append(_command(consumer_id, CommandAck.Cumulative, ids))
            self._cumulative = None
        if self._individual:
            ids = [encode_ack_id(entry, left) for entry, left in self._individual.items()]
            commands.append(_command(consumer_id, CommandAck.Individual, ids))
            self._individual.clear()
        return commands

    def clear(self) -> None:
        self._individual.clear()
        self._cumulative = None
        self._remaining.clear()

    def forget_batches(self) -> None:
        """Delivery starts over: the broker knows what it was told, the rest comes again."""
        self._remaining.clear()


def encode_ack_id(entry: MessageId, remaining: int) -> MessageIdData:
    data = message_id(entry.position, partition=entry.partition)
    data.ack_set.extend(encode_ack_set(remaining))
    return data


def encode_seek_target(target: MessageId) -> MessageIdData:
    """A message that comes next; those before it in its batch are marked as done."""
    data = message_id(target.position, partition=target.partition, batch_index=target.batch_index)
    if 0 < target.batch_index < target.batch_size:
        remaining = full_ack_set(target.batch_size) & ~full_ack_set(target.batch_index)
        data.ack_set.extend(encode_ack_set(remaining))
    return data


def plan_redeliveries(ids: Iterable[MessageId], *, size_max: int) -> list[Sequence[MessageId]]:
    """The entries of these messages, once each, in commands of bounded size."""
    entries = sorted({id.entry for id in ids})
    return [entries[start : start + size_max] for start in range(0, len(entries), size_max)]


def _batch_size(id: MessageId) -> int:
    if id.batch_index >= id.batch_size:
        raise ConfigurationError(f"The id {id} does not know the size of its batch")
    return id.batch_size


def _command(
    consumer_id: int, kind: CommandAck.AckType, ids: Sequence[MessageIdData]
) -> CommandAck:
    return CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=ids)
