"""A client that says what a test wants and hears what a broker answers."""

from __future__ import annotations

import http.client
from typing import Any

from magnetar.testing.broker import HOST, MagnetarBroker
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandConnect,
    CommandFlow,
    CommandProducer,
    CommandScalableTopicLookup,
    CommandScalableTopicSubscribe,
    CommandSend,
    CommandSubscribe,
    MessageMetadata,
    body_of,
    make_command,
)
from magnetar.wire.entry import decode_entry, encode_entry
from tests.interop.scalable.replay import Link


def call_admin(broker: MagnetarBroker, method: str, path: str) -> int:
    connection = http.client.HTTPConnection(HOST, broker.web_port, timeout=20)
    try:
        connection.request(method, f"/admin/v2/{path}")
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


class Talk:
    def __init__(self, link: Link) -> None:
        self.link = link
        self._requests = 0

    @classmethod
    async def open(cls, broker: MagnetarBroker, *, version: str = "Pulsar-Java-v5.0.0-M1") -> Talk:
        talk = cls(await Link.open(broker.port))
        talk.say(CommandConnect(client_version=version, protocol_version=21))
        await talk.link.hear((BaseCommand.CONNECTED,))
        return talk

    def say(self, body: Any) -> None:
        self.link.say(make_command(body))

    async def ask(self, body: Any, *kinds: int) -> Any:
        self._requests += 1
        body.request_id = self._requests
        self.say(body)
        keys = [(kind, self._requests) for kind in (*kinds, BaseCommand.ERROR)]
        command, _ = await self.link.hear(*keys)
        return body_of(command)

    async def look_up(self, topic: str, session_id: int = 1) -> Any:
        request = CommandScalableTopicLookup(session_id=session_id, topic=topic)
        request.create_if_missing = True
        self.say(request)
        return await self.next_layout(session_id)

    async def next_layout(self, session_id: int = 1) -> Any:
        command, _ = await self.link.hear((BaseCommand.SCALABLE_TOPIC_UPDATE, session_id))
        return command.scalableTopicUpdate

    async def register(self, topic: str, name: str, *, consumer_id: int) -> list[str]:
        """Join subscription `s`; return the topics to read."""
        request = CommandScalableTopicSubscribe(
            topic=topic,
            subscription="s",
            consumer_name=name,
            consumer_id=consumer_id,
            consumer_type="STREAM",
        )
        response = await self.ask(request, BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
        assert not response.HasField("error"), response
        return sorted(each.segment_topic for each in response.assignment.segments)

    async def next_share(self, consumer_id: int) -> list[str]:
        key = (BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE, consumer_id)
        command, _ = await self.link.hear(key)
        segments = command.scalableTopicAssignmentUpdate.assignment.segments
        return sorted(each.segment_topic for each in segments)

    async def subscribe(
        self, topic: str, *, consumer_id: int, kind: str = "Shared", name: str = "", start: str
    ) -> Any:
        request = CommandSubscribe(
            topic=topic,
            subscription="s",
            subType=kind,  # type: ignore[arg-type]
            consumer_id=consumer_id,
            consumer_name=name,
            initialPosition=start,  # type: ignore[arg-type]
        )
        answer = await self.ask(request, BaseCommand.SUCCESS)
        self.say(CommandFlow(consumer_id=consumer_id, messagePermits=1000))
        return answer

    async def produce(self, topic: str, values: list[str], *, producer_id: int) -> None:
        """Publish and wait for every receipt."""
        request = CommandProducer(topic=topic, producer_id=producer_id)
        await self.ask(request, BaseCommand.PRODUCER_SUCCESS)
        for number, value in enumerate(values):
            metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
            send = CommandSend(producer_id=producer_id, sequence_id=number, num_messages=1)
            self.link.say(make_command(send), encode_entry(metadata, value.encode()))
        for number in range(len(values)):
            await self.link.hear((BaseCommand.SEND_RECEIPT, producer_id, number))

    async def receive(self, consumer_id: int, *, acknowledge: bool = True) -> str:
        command, payload = await self.link.hear((BaseCommand.MESSAGE, consumer_id))
        if acknowledge:
            ids = [command.message.message_id]
            ack = CommandAck(consumer_id=consumer_id, ack_type="Individual", message_id=ids)
            self.say(ack)
        return decode_entry(payload)[1].decode()

    async def close(self) -> None:
        await self.link.close()
