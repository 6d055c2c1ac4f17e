"""Plays the client's side of a recorded conversation to a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from magnetar.wire.command import BaseCommand, body_of, decode_command, encode_command
from magnetar.wire.frame import Frame, FrameDecoder
from tests.interop.scalable.tape import Line, essence_of, key_of, load_tape

ANSWER_S = 20.0
FRAME_BYTES_MAX = 1 << 24

Trigger = Callable[[Line], bool]
Action = Callable[[], Awaitable[None]]


class Link:
    """One connection: keeps what the broker says until it is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
        self.heard: list[tuple[BaseCommand, bytes]] = []

    @classmethod
    async def open(cls, port: int) -> Link:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def say(self, command: BaseCommand, payload: bytes = b"") -> None:
        frame = bytearray(encode_command(command) + payload)
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        self._writer.write(bytes(frame))

    async def hear(self, *keys: tuple[Any, ...]) -> tuple[BaseCommand, bytes]:
        """The next frame of one of the keys, whatever else comes before it."""
        async with asyncio.timeout(ANSWER_S):
            while True:
                for index, (command, _) in enumerate(self.heard):
                    if key_of(command) in keys:
                        return self.heard.pop(index)
                await self._read()

    async def _read(self) -> None:
        data = await self._reader.read(1 << 16)
        assert data, "the broker closed the connection"
        self._decoder.feed(data)
        while (frame := self._decoder.next_frame()) is not None:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        command = decode_command(frame.command)
        if command.type == BaseCommand.PING:
            self.say(BaseCommand(type=BaseCommand.PONG, pong={}))
        else:
            self.heard.append((command, bytes(frame.body)))

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass
class Replay:
    port: int
    acts: list[tuple[Trigger, Action]] = field(default_factory=list)
    """Admin calls, each made once, before the first line that shows its effect."""
    is_skipped: Trigger = lambda line: False
    """What the recorded broker said and ours rightly does not."""
    differs: Trigger = lambda line: False
    """What ours says with other content."""
    _links: dict[int, Link] = field(default_factory=dict)
    _ledgers: dict[int, int] = field(default_factory=dict)
    _layouts: dict[tuple[int, int], Any] = field(default_factory=dict)

    async def run(self, name: str) -> list[BaseCommand]:
        """Play a recording; return what our broker said beyond it."""
        extra: list[BaseCommand] = []
        for line in load_tape(name):
            for act in [each for each in self.acts if each[0](line)]:
                self.acts.remove(act)
                await act[1]()
            if line.event == "open":
                self._links[line.connection] = await Link.open(self.port)
            elif line.event == "close":
                link = self._links.pop(line.connection)
                extra += [command for command, _ in link.heard]
                await link.close()
            elif line.is_client:
                self._say(line)
            elif not self.is_skipped(line) and not self._is_repeated(line):
                await self._compare(line)
        return extra

    def _is_repeated(self, line: Line) -> bool:
        """The recorded broker pushes a layout again when something below its record changes."""
        if line.type != BaseCommand.SCALABLE_TOPIC_UPDATE:
            return False
        assert line.command is not None
        key, essence = (line.connection, line.body.session_id), essence_of(line.command)
        is_repeated = bool(self._layouts.get(key) == essence)
        self._layouts[key] = essence
        return is_repeated

    def _say(self, line: Line) -> None:
        assert line.command is not None
        command = BaseCommand()
        command.CopyFrom(line.command)
        body: Any = body_of(command)
        match command.type:
            case BaseCommand.ACK | BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES:
                for each in getattr(body, "message_id", None) or body.message_ids:
                    each.ledgerId = self._ledgers[each.ledgerId]
            case BaseCommand.SUBSCRIBE if body.HasField("start_message_id"):
                ledger_id = body.start_message_id.ledgerId
                body.start_message_id.ledgerId = self._ledgers.get(ledger_id, ledger_id)
        self._links[line.connection].say(command, line.payload)

    async def _compare(self, line: Line) -> None:
        assert line.command is not None
        command, payload = await self._links[line.connection].hear(key_of(line.command))
        said: Any = body_of(command)
        if command.type in (BaseCommand.MESSAGE, BaseCommand.SEND_RECEIPT):
            self._ledgers[line.body.message_id.ledgerId] = said.message_id.ledgerId
        if not self.differs(line):
            assert essence_of(command) == essence_of(line.command), (line.command, command)
            assert payload == line.payload
