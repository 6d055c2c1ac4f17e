"""Messages on their way to the broker, and the SENDs that wait for their receipts, in order."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

from magnetar.client.handle import Enlisting
from magnetar.errors import ProtocolViolation

_NUMBER_END = 1 << 64


class MessageOptions(TypedDict, total=False):
    """What may be said about a message besides its data."""

    key: str | bytes | None
    ordering_key: bytes | None
    properties: Mapping[str, str]
    event_time_ms: int | None
    deliver_at_ms: int | None
    replicate_to: Sequence[str]
    sequence_id: int | None
    transaction: Enlisting
    context: Mapping[Any, Any]
    """What interceptors keep from a send to its end; nothing else reads it."""


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Messages that are one entry already, in the order of their sequence ids."""

    count: int
    first: int
    last: int
    payload: bytes
    key: str | None
    """Of the first, as it stands in the metadata."""
    is_key_encoded: bool
    hashes: tuple[int, int] | None
    """The lowest and the highest bucket hash, where the segment has buckets."""
    source: Any
    """What it was made of; its maker can take it apart."""


class Outcome(Protocol):
    """A future of the loop's, or of a thread."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def cancel(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...

    def result(self) -> Any: ...

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, on_done: Callable[[Any], object], /) -> None: ...


class RunOutcome:
    """Of messages that went together: `set_result` takes the ids of all."""

    __slots__ = ("_is_done", "each")

    def __init__(self, each: list[Outcome]) -> None:
        self.each = each
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return False

    def cancel(self) -> bool:
        return False

    def set_result(self, ids: Sequence[Any], /) -> None:
        self._is_done = True
        for sent, id in zip(self.each, ids, strict=True):
            try:
                sent.set_result(id)
            except asyncio.InvalidStateError:
                pass  # its caller has given it up

    def set_exception(self, exception: BaseException, /) -> None:
        self._is_done = True
        for sent in self.each:
            if not sent.done():
                sent.set_exception(exception)

    def result(self) -> Any:
        return [sent.result() for sent in self.each]

    def exception(self) -> BaseException | None:
        failures = [sent.exception() for sent in self.each if not sent.cancelled()]
        return failures[0] if failures else None

    def add_done_callback(self, on_done: Callable[[Any], object], /) -> None:
        self.each[-1].add_done_callback(on_done)


@dataclass(slots=True, eq=False)
class Outgoing:
    """A message on its way; `sent` gets its id, or why there is none."""

    data: bytes | None
    sent: Outcome
    key: Final[str | bytes | None]
    options: Final[MessageOptions]
    """What else was said about it."""
    size: int
    """Bytes that it holds while it waits for its receipt."""
    sequence_id: int = -1
    number: int = -1
    """Where its call stands among all calls of the producer."""
    expires_at: float = 0.0
    count: int = 1
    """How many messages it is."""
    pack: Final[Pack | None] = None
    """What it is if it is more than one."""
    group: Sequence[bytes] = ()
    """Or the data of several that say nothing else."""
    is_submitted: bool = False
    """Whether its caller goes on without it: `flush` tells when it fails."""

    @property
    def last_sequence_id(self) -> int:
        """Of the last one, if it is several."""
        return self.sequence_id + (self.count - 1 if self.group else 0)

    @property
    def is_run(self) -> bool:
        """Whether others have joined it: each has an outcome and an id of its own."""
        return type(self.sent) is RunOutcome

    def join(self, payloads: Sequence[bytes], outcomes: Sequence[Outcome]) -> None:
        """Let more go with it; none of them says anything but its data."""
        outcome, group = self.sent, self.group
        if type(outcome) is RunOutcome and type(group) is list:
            outcome.each += outcomes
            group += payloads
        else:
            assert self.data is not None
            self.group, self.data = [self.data, *payloads], None
            self.sent = RunOutcome([outcome, *outcomes])
        self.count += len(payloads)
        self.size += sum(map(len, payloads))

    @property
    def is_plain(self) -> bool:
        """Nothing was said about it but its data; the number is one that can be spelled."""
        return (
            self.key is None
            and not self.options
            and self.data is not None
            and 0 <= self.sequence_id < _NUMBER_END
        )

    @property
    def transaction(self) -> Enlisting | None:
        return self.options.get("transaction") if self.options else None

    @property
    def is_batchable(self) -> bool:
        options = self.options
        if not options:
            return not self.group or self.is_run
        return (
            options.get("deliver_at_ms") is None
            and not options.get("replicate_to")
            and self.pack is None
        )


@dataclass(slots=True)
class PendingSend:
    """One SEND that waits for its receipt; the frame is kept to be sent again unchanged."""

    sequence_id: int
    highest_sequence_id: int
    frame: bytes
    messages: Sequence[Outgoing]
    """Empty for all chunks of a message but the last."""
    count: int = 0
    """How many are in the entry, if it is a batch."""
    is_sent: bool = False
    """Whether it was on some connection: it may be stored."""


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


def format_key(key: str | bytes) -> str:
    """A key as it stands in the metadata: bytes are spelled in base64."""
    return key if isinstance(key, str) else base64.b64encode(key).decode()
