"""Write the table of docs/limits.md from that of the code (`magnetar.model.limit`).

python tools/generate_limits.py           write it
python tools/generate_limits.py --check   fail when it is not what would be written
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from magnetar.errors import BrokerError, ProtocolViolation, fault_of
from magnetar.model.limit import Refusal, Row, Unit, rows
from magnetar.wire.command import ServerError

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"
HEAD = """\
| what | default | key | more than that |
| --- | --- | --- | --- |
"""


def format_number(row: Row) -> str:
    number = row.default
    if number <= 0:
        return str(number) if number else "no limit"
    if row.unit is Unit.BYTES and number >= 1024:
        for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
            if number % size == 0:
                return f"{number // size} {unit}"
    unit = "" if row.unit is Unit.COUNT else f" {row.unit}"
    return f"{number:,}{unit}" if number > 9999 else f"{number}{unit}"


def format_refusal(refusal: Refusal) -> str:
    match refusal:
        case str():
            return refusal
        case int():
            return f"{refusal} {HTTPStatus(refusal).phrase}"
    if issubclass(refusal, ProtocolViolation):
        return "the connection is closed"
    assert issubclass(refusal, BrokerError)
    fault = fault_of(refusal())
    return f"`{ServerError.Name(fault.code)}`, {fault.status.value}"


def render(page: str) -> str:
    """The page with its table written anew."""
    lines = [
        f"| {row.meaning} | {format_number(row)} | `{row.key}` | {format_refusal(row.refusal)} |\n"
        for row in rows()
    ]
    return page[: page.index(HEAD)] + HEAD + "".join(lines)


if __name__ == "__main__":
    from output import finish

    finish({PAGE: render(PAGE.read_text())})
