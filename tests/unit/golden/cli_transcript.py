"""Runs command lines of `magnetar admin` against a broker in memory and writes down the output."""

from __future__ import annotations

import asyncio
import io
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from magnetar import __version__
from magnetar.admin.server import serving
from magnetar.broker.administration.web import make_web_limit
from magnetar.cli.main import main
from magnetar.runtime.accept import open_socket
from tests.unit.admin.assembly import Admin, admin_of_new_broker
from tests.unit.broker.broker_place import StillClock
from tests.unit.golden.request import PUBLISH
from tests.unit.golden.rest_script import SCRIPTS
from tests.unit.golden.transcript import settle

_FILES = "$FILES"


async def cli_transcript(
    lines: Iterable[Sequence[str]],
    prepare: Callable[[Admin], Awaitable[None]] | None = None,
    **settings: Any,
) -> list[str]:
    """One text for each command; the clock stands still during one and moves between two."""
    clock = StillClock()
    texts = []
    async with admin_of_new_broker(clock=clock, **settings) as admin:
        if prepare is not None:
            await prepare(admin)
            await settle()
        limit = make_web_limit(admin.service)
        async with serving(admin.application, open_socket("127.0.0.1", 0), limit=limit) as port:
            for words in lines:
                clock.pass_s(1)
                texts.append(await _run(admin, f"http://127.0.0.1:{port}", words))
                await settle()
    return texts


async def _run(admin: Admin, url: str, words: Sequence[str]) -> str:
    if words[0] == PUBLISH:
        return f"> {shlex.join(words)}\n< {await admin.publish(words[1], words[2].encode())}\n"
    real = [word.replace(_FILES, str(SCRIPTS)) for word in words]
    return await asyncio.to_thread(run_command, words, ["--admin-url", url, *real])


def run_command(title: Sequence[str], words: Sequence[str]) -> str:
    """The exit code, then standard output, then standard error with a mark before each line."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = main(["admin", *words])
    shown = output.getvalue() + "".join(f"! {line}\n" for line in errors.getvalue().splitlines())
    shown = shown.replace(str(SCRIPTS), _FILES).replace(__version__, "<version>")
    return f"> {shlex.join(title)}\n< {code}\n{shown}"
