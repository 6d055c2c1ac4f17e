"""A proxy between clients and a broker that can lose acknowledgements and cut connections."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from magnetar.testing.broker import find_ports
from magnetar.wire.command import BaseCommand


class AckProxy:
    """Clients that come through it are sent back to it by every address the broker names."""

    def __init__(self, broker_port: int) -> None:
        (self.port,) = find_ports(1)
        self.loses_acks = False
        self.lost: SimpleQueue[int] = SimpleQueue()
        """Entry ids of the acknowledgements that were lost."""
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def service_url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[AckProxy]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            start = asyncio.start_server(self._serve, "127.0.0.1", self.port)
            server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._end(server), self._loop).result(10)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def cut(self) -> None:
        """Break every connection."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            below, above = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, above}
        await asyncio.gather(self._pass(reader, above, True), self._pass(below, writer, False))

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_up: bool
    ) -> None:
        try:
            while True:
                head = await source.readexactly(8)
                size, command_size = struct.unpack(">II", head)
                frame = await source.readexactly(size - 4)
                command = BaseCommand.FromString(frame[:command_size])
                if is_up and command.type == BaseCommand.ACK and self.loses_acks:
                    for message_id in command.ack.message_id:
                        self.lost.put(message_id.entryId)
                    continue
                if not is_up and command_size == len(
                    frame
                ):  # as long as before: ports have 5 digits
                    frame = frame.replace(b":%d" % self._broker_port, b":%d" % self.port)
                sink.write(head + frame)
                await sink.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            sink.transport.abort()
