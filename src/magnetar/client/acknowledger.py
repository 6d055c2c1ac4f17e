"""Sending acknowledgements: together, or each with the broker's word that it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.client.acknowledgement import AckGroup
from magnetar.client.attachment import Attachment
from magnetar.client.connection import Connection, Type
from magnetar.client.error import decode_refusal
from magnetar.client.interceptor import tell_acknowledged
from magnetar.client.message_id import MessageId
from magnetar.client.subscription import ConsumerSettings
from magnetar.model.name import TopicName
from magnetar.runtime.clock import Clock, Timer


class Acknowledger:
    """What is done waits here for others, for a connection, or for its receipt."""

    def __init__(
        self,
        consumer_id: int,
        topic: TopicName,
        settings: ConsumerSettings,
        attachment: Attachment,
        *,
        clock: Clock,
        timeout: float,
    ) -> None:
        self.group = AckGroup(by_index=settings.batch_index_acks)
        self._consumer_id = consumer_id
        self._topic = topic
        self._settings = settings
        self._attachment = attachment
        self._timeout = timeout
        self._clock = clock
        self._timer: Timer | None = None

    async def add(self, id: MessageId, entries: Sequence[MessageId]) -> None:
        """A message is done, and with it all the entries it came in."""
        for entry in entries:
            self.group.add(entry)
        self._tell(id, is_cumulative=False)
        await self._go_on()

    async def add_cumulative(self, id: MessageId) -> None:
        self.group.add_cumulative(id)
        self._tell(id, is_cumulative=True)
        await self._go_on()

    def flush(self) -> None:
        self.cancel_timer()
        connection = self._attachment.connection
        if connection is not None:
            self.send_all(connection)

    def send_all(self, connection: Connection) -> None:
        for command in self.group.take(self._consumer_id):
            connection.send_body(command)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, id: MessageId, *, is_cumulative: bool) -> None:
        if self._settings.interceptors:
            tell_acknowledged(
                self._settings.interceptors, self._topic.full, (id,), is_cumulative=is_cumulative
            )

    async def _go_on(self) -> None:
        settings = self._settings
        if settings.ack_receipts:
            await self._confirm()
        elif settings.ack_group_time == 0 or len(self.group) >= settings.ack_group_size:
            self.flush()
        elif self._timer is None and len(self.group):
            self._timer = self._clock.call_later(settings.ack_group_time, self.flush)

    async def _confirm(self) -> None:
        connection = await self._attachment.wait(self._timeout)
        for command in self.group.take(self._consumer_id):
            answer = await connection.request(command, Type.ACK_RESPONSE, timeout=self._timeout)
            if answer.HasField("error"):
                raise decode_refusal(answer.error, answer.message)
