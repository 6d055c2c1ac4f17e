"""SENDs that wait for their receipts, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from magnetar.client.outgoing import PendingSend
from magnetar.errors import ProtocolViolation


class PendingQueue:
    """Receipts come in the order of the SENDs: each confirms the head, or is an old one again."""

    def __init__(self) -> None:
        self._sends: deque[PendingSend] = deque()

    def __len__(self) -> int:
        return len(self._sends)

    def __iter__(self) -> Iterator[PendingSend]:
        return iter(self._sends)

    def append(self, send: PendingSend) -> None:
        self._sends.append(send)

    def confirm(self, sequence_id: int) -> PendingSend | None:
        """Take the head if the receipt is for it; None for one that is not awaited any more."""
        if not self._sends or sequence_id < self._sends[0].sequence_id:
            return None
        if sequence_id > self._sends[0].highest_sequence_id:
            expected = self._sends[0].sequence_id
            raise ProtocolViolation(
                f"a receipt for {sequence_id} while {expected} is not confirmed"
            )
        return self._sends.popleft()

    def refuse(self, sequence_id: int) -> PendingSend | None:
        """Take the SEND that the broker refused; its error carries the highest id."""
        for send in self._sends:
            if send.sequence_id <= sequence_id <= send.highest_sequence_id:
                self._sends.remove(send)
                return send
        return None

    def drop_ended(self) -> None:
        """Drop those of the head whose messages have all ended, with the chunks before them."""
        while self._sends:
            count = 1
            while count < len(self._sends) and not self._sends[count - 1].messages:
                count += 1
            messages = self._sends[count - 1].messages
            if not messages or not all(message.sent.done() for message in messages):
                return
            for _ in range(count):
                self._sends.popleft()

    def take_through(self, sequence_id: int) -> list[PendingSend]:
        """Take those of the head that are stored up to a sequence id."""
        taken = []
        while self._sends and self._sends[0].highest_sequence_id <= sequence_id:
            taken.append(self._sends.popleft())
        return taken

    def take_uncertain(self) -> list[PendingSend]:
        """Take those of transactions that may be stored: to send them again could store them
        twice.
        """
        taken = [
            send
            for send in self._sends
            if send.is_sent and send.messages and send.messages[0].transaction is not None
        ]
        for send in taken:
            self._sends.remove(send)
        return taken

    def drain(self) -> list[PendingSend]:
        drained = list(self._sends)
        self._sends.clear()
        return drained
