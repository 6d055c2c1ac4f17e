from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from magnetar.cli.input import read_lines


async def collect(descriptor: int) -> list[bytes]:
    return [line async for line in read_lines(descriptor)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nlast", [b"a", b"last"]),
        (b"\n\n", [b"", b""]),
        (b"", []),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
def test_a_file_is_read_line_by_line(text: bytes, expected: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(text)
    with path.open("rb") as file:
        assert asyncio.run(collect(file.fileno())) == expected


def test_a_line_of_a_pipe_is_there_before_the_next_is_written() -> None:
    async def body() -> None:
        reading, writing = os.pipe()
        lines = read_lines(reading)
        try:
            os.write(writing, b"first\nsec")
            assert await anext(lines) == b"first"
            os.write(writing, b"ond\n")
            assert await anext(lines) == b"second"
            os.close(writing)
            assert await anext(lines, None) is None
        finally:
            os.close(reading)

    asyncio.run(body())
