"""Requests of one connection that wait for something, and how the failed ones are answered."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from magnetar.broker.client_socket import ClientSocket
from magnetar.errors import BrokerError, MagnetarError, ProtocolViolation, WireCode
from magnetar.model.limit import Limits
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.runtime.watchdog import names_work
from magnetar.wire.command import NO_REQUEST, BaseCommand, body_of, error
from magnetar.wire.limit import check_command
from magnetar.wire.refusal import encode_refusal

_log = Logger(__name__)

_PENDING: Final = "requests"


class PendingRequests:
    def __init__(self, socket: ClientSocket, limits: Limits, tasks: TaskScope) -> None:
        self._socket = socket
        self._limits = limits
        self._tasks = tasks
        self._count = 0

    def check(self, command: BaseCommand, data: bytes) -> bool:
        """Return whether a command is within the limits; one that is not is refused."""
        try:
            check_command(self._limits, command, data)
        except BrokerError as refusal:
            answer = encode_refusal(command, refusal)
            if answer is None:
                raise ProtocolViolation(refusal.sentence) from None
            self._socket.send_command(answer)
            return False
        return True

    def start(self, waiting: Awaitable[None], command: BaseCommand) -> None:
        """The peer is not read while too many wait."""
        self._count += 1
        if self._count >= self._limits.requests_pending:
            self._socket.pause(_PENDING)
        self._tasks.start(self._serve(waiting, command), name="request")

    @names_work(lambda local: BaseCommand.Type.Name(local["command"].type))
    async def _serve(self, waiting: Awaitable[None], command: BaseCommand) -> None:
        socket = self._socket
        request_id: int = getattr(body_of(command), "request_id", NO_REQUEST)
        try:
            await waiting
        except BrokerError as refusal:
            socket.refuse(command, refusal)
        except MagnetarError as failure:
            _log.warning("request failed", address=socket.address, reason=failure.sentence)
            socket.send_command(error(request_id, WireCode.UNKNOWN, failure.sentence))
        except Exception as bug:
            kind = BaseCommand.Type.Name(command.type)
            _log.error("request failed", error=bug, address=socket.address, command=kind)
            sentence = f"internal error: {type(bug).__name__}"
            socket.send_command(error(request_id, WireCode.UNKNOWN, sentence))
        finally:
            self._count -= 1
            if self._count <= self._limits.requests_pending // 2:
                socket.resume(_PENDING)
