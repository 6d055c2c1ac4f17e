"""What clients of Apache BookKeeper keep in metadata, and the requests that its binary protocol
cannot carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError, EncodeError

from magnetar.errors import ProtocolViolation, RecordUnreadable
from magnetar.wire.pb import bookkeeper_pb2
from magnetar.wire.varint import encode_varint, read_varint

_HEAD: Final = b"BookieMetadataFormatVersion\t"
_TEXT: Final = 2
_BINARY: Final = 3
_RPC: Final = "bookie-rpc"
_STATE_OK: Final = 0


class LedgerState(Enum):
    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(Enum):
    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """From entry `first` on, entries are on these bookies; their order decides which has which."""

    first: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """`last` and `length` mean something once the ledger is closed."""

    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last: int = -1
    length: int = 0
    digest: DigestType = DigestType.CRC32C
    password: bytes = b""
    properties: tuple[tuple[str, bytes], ...] = ()
    token: int = 0
    """Tells the creator of a ledger its own record from another's."""
    source: bytes = field(default=b"", compare=False, repr=False)
    """The message it was read from; what it has beyond these fields is written again."""
    is_text: bool = field(default=False, compare=False)

    @property
    def ensemble_size(self) -> int:
        return len(self.segments[0].bookies)


def encode_ledger(ledger: LedgerMetadata) -> bytes:
    message = bookkeeper_pb2.LedgerMetadataFormat()
    message.ParseFromString(ledger.source)
    message.quorumSize = ledger.write_quorum
    message.ensembleSize = ledger.ensemble_size
    message.ackQuorumSize = ledger.ack_quorum
    message.length = ledger.length
    message.lastEntryId = ledger.last
    message.state = ledger.state.value  # type: ignore[assignment]
    message.digestType = ledger.digest.value  # type: ignore[assignment]
    message.password = ledger.password
    del message.segment[:]
    for segment in ledger.segments:
        message.segment.add(ensembleMember=segment.bookies, firstEntryId=segment.first)
    del message.customMetadata[:]
    for key, value in ledger.properties:
        message.customMetadata.add(key=key, value=value)
    if ledger.token:
        message.cToken = ledger.token
    else:
        message.ClearField("cToken")
    if ledger.is_text:
        return b"%s%d\n%s" % (_HEAD, _TEXT, text_format.MessageToString(message).encode())
    body = message.SerializeToString()
    return b"%s%d\n%s%s" % (_HEAD, _BINARY, encode_varint(len(body)), body)


def decode_ledger(path: str, data: bytes) -> LedgerMetadata:
    """Raise RecordUnreadable, naming the path, for what is no record of a ledger."""
    head, _, rest = data.partition(b"\n")
    if not head.startswith(_HEAD):
        raise RecordUnreadable(f"{path} does not hold the metadata of a ledger")
    version = head[len(_HEAD) :]
    message = bookkeeper_pb2.LedgerMetadataFormat()
    try:
        if version == b"%d" % _TEXT:
            text_format.Parse(rest.decode(), message)
        elif version == b"%d" % _BINARY:
            size, start = read_varint(rest, 0)
            if size != len(rest) - start:
                raise RecordUnreadable(
                    f"{path}: metadata of {size} bytes, {len(rest) - start} there"
                )
            message.ParseFromString(rest[start:])
        else:
            raise RecordUnreadable(f"{path} is of format {version!r}; formats 2 and 3 are known")
    except (
        DecodeError,
        EncodeError,
        text_format.ParseError,
        ProtocolViolation,
        ValueError,
        IndexError,
    ) as error:
        raise RecordUnreadable(f"{path}: {error}") from None
    found = LedgerMetadata(
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize
        if message.HasField("ackQuorumSize")
        else message.quorumSize,
        segments=tuple(
            Segment(each.firstEntryId, tuple(each.ensembleMember)) for each in message.segment
        ),
        state=LedgerState(message.state),
        last=message.lastEntryId if message.HasField("lastEntryId") else -1,
        length=message.length,
        digest=DigestType(message.digestType)
        if message.HasField("digestType")
        else DigestType.CRC32C,
        password=message.password,
        properties=tuple((each.key, each.value) for each in message.customMetadata),
        token=message.cToken,
        source=message.SerializeToString(),
        is_text=version == b"%d" % _TEXT,
    )
    _check_ledger(path, found, message.ensembleSize)
    return found


def _check_ledger(path: str, ledger: LedgerMetadata, size: int) -> None:
    firsts = [segment.first for segment in ledger.segments]
    if not size >= ledger.write_quorum >= ledger.ack_quorum >= 1:
        raise RecordUnreadable(
            f"{path}: ensemble of {size}, write quorum of {ledger.write_quorum}, ack quorum of"
            f" {ledger.ack_quorum}"
        )
    if not firsts or firsts[0] != 0 or any(a >= b for a, b in pairwise(firsts)):
        raise RecordUnreadable(f"{path}: segments begin at entries {firsts}")
    if any(len(set(segment.bookies)) != size for segment in ledger.segments):
        raise RecordUnreadable(f"{path}: a segment does not have {size} bookies")


def decode_address(bookie: str, data: bytes) -> tuple[str, int] | None:
    """Where a bookie listens, by its registration; else by its id, if that is host:port."""
    message = bookkeeper_pb2.BookieServiceInfoFormat()
    try:
        message.ParseFromString(data)
    except DecodeError:
        message.Clear()
    for endpoint in message.endpoints:
        if endpoint.protocol == _RPC:
            return endpoint.host, endpoint.port
    host, _, port = bookie.rpartition(":")
    if host and port.isascii() and port.isdigit() and int(port) < 1 << 16:
        return host, int(port)
    return None


def encode_start_tls(number: int) -> bytes:
    request = bookkeeper_pb2.Request(startTLSRequest=bookkeeper_pb2.StartTLSRequest())
    _address(request, bookkeeper_pb2.START_TLS, number)
    return request.SerializeToString()


def encode_write_lac(number: int, ledger: int, last: int, key: bytes, body: bytes) -> bytes:
    """Tell a bookie the last confirmed entry; `body` is that with its digest."""
    request = bookkeeper_pb2.Request(
        writeLacRequest=bookkeeper_pb2.WriteLacRequest(
            ledgerId=ledger, lac=last, masterKey=key, body=body
        )
    )
    _address(request, bookkeeper_pb2.WRITE_LAC, number)
    return request.SerializeToString()


def _address(
    request: bookkeeper_pb2.Request, operation: bookkeeper_pb2.OperationType, number: int
) -> None:
    request.header.version = bookkeeper_pb2.VERSION_THREE
    request.header.operation = operation
    request.header.txnId = number


def decode_response(body: bytes) -> tuple[int, bool] | None:
    """The number of the request and whether it was granted; None when it is no response."""
    response = bookkeeper_pb2.Response()
    try:
        response.ParseFromString(body)
    except DecodeError:
        return None
    return response.header.txnId, response.status == _STATE_OK
