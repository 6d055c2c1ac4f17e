"""Ledgers that Apache BookKeeper's own client and shell read, and theirs that we read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from magnetar.ledger.store import Digest, Replication
from magnetar.model.position import LedgerId
from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.jar import fetch_jars
from magnetar.testing.java import run_java
from magnetar.wire.bookkeeper import DigestType
from tests.contract.bookkeeper_place import bookkeeper_store
from tests.unit.ledger.file_place import ONE, append, numbered, read_all

PROGRAM = Path(__file__).parent / "java" / "LedgerTool.java"
PASSWORD = "secret"


def run_tool(bookies: BookieCluster, verb: str, *words: object) -> list[str]:
    given = (str(PROGRAM), bookies.zookeeper.hosts, verb, PASSWORD, *map(str, words))
    return run_java("ledger-tool", fetch_jars(), given).splitlines()


def read_by_java(bookies: BookieCluster, *words: object) -> list[tuple[str, list[bytes]]]:
    """Digests and ledgers in turn; where each ends, and its entries."""
    found: list[tuple[str, list[bytes]]] = []
    for line in run_tool(bookies, "read", *words):
        kind, _, text = line.partition(" ")
        if kind == "last":
            found.append((text, []))
        elif kind == "entry":
            found[-1][1].append(text.encode())
    return found


def test_the_java_client_reads_what_we_sealed_and_recovers_what_we_left_open(
    bookies: BookieCluster,
) -> None:
    async def seal(digest: DigestType, ensemble: Replication) -> LedgerId:
        async with bookkeeper_store(bookies, digest=digest, password=PASSWORD.encode()) as store:
            writer = await store.create(
                term=ONE, properties={"pulsar/managed-ledger": "t/n/ü"}, replication=ensemble
            )
            await append(writer, numbered(50))
            await writer.seal()
            return writer.id

    async def leave() -> LedgerId:
        """After a bookie was replaced."""
        async with bookkeeper_store(bookies, password=PASSWORD.encode(), timeout_s=2.0) as store:
            writer = await store.create(term=ONE, properties={}, replication=Replication(2, 2, 2))
            await append(writer, numbered(20))
            victim = bookies.bookie_at(writer.metadata.segments[0].bookies[0])
            victim.kill()
            await append(writer, numbered(20, start=20))
            assert [each.first for each in writer.metadata.segments] == [0, 20]
            await asyncio.to_thread(victim.start)
            return writer.id

    found = read_by_java(
        bookies,
        *("CRC32C", asyncio.run(seal(DigestType.CRC32C, Replication(3, 2, 2)))),
        *("CRC32", asyncio.run(seal(DigestType.CRC32, Replication(2, 2, 2)))),
        *("MAC", asyncio.run(seal(DigestType.HMAC, Replication(3, 3, 2)))),
        *("CRC32C", asyncio.run(leave())),
    )
    sealed = ("49 1000", numbered(50))
    assert found == [sealed, sealed, sealed, ("39 800", numbered(40))]


def test_we_read_and_recover_what_the_java_client_wrote(bookies: BookieCluster) -> None:
    kinds = [("CRC32C", "close"), ("MAC", "leave"), ("CRC32", "leave")]
    lines = run_tool(bookies, "write", *(word for kind in kinds for word in kind))
    ledgers = [LedgerId(int(each[7:])) for each in lines if each.startswith("ledger ")]

    async def body(ledger: LedgerId, verb: str) -> None:
        async with bookkeeper_store(bookies) as store:
            before = await store.describe(ledger)
            assert before.sealed == (verb == "close")
            assert before.properties == {"made-by": "java"}
            assert await read_all(store, ledger) == numbered(before.last + 1)
            info = await store.recover(ledger, term=ONE)
            assert (info.sealed, info.last, info.length) == (True, 29, 600)
            assert await read_all(store, ledger) == numbered(30)

    again: list[object] = []
    for (digest, verb), ledger in zip(kinds, ledgers, strict=True):
        asyncio.run(body(ledger, verb))
        again += [digest, ledger]
    assert read_by_java(bookies, *again) == [("29 600", numbered(30))] * len(kinds)


def test_the_java_client_is_told_the_end_of_an_idle_ledger(bookies: BookieCluster) -> None:
    async def body() -> None:
        async with bookkeeper_store(
            bookies, password=PASSWORD.encode(), explicit_last_s=0.05
        ) as store:
            writer = await store.create(term=ONE, properties={})
            for number in range(5):
                await append(writer, numbered(1, start=number))
            async with asyncio.timeout(60):
                end = ""
                while end != "end 4 4":  # the last entry itself tells of entry 3
                    lines = await asyncio.to_thread(run_tool, bookies, "end", "CRC32C", writer.id)
                    [end] = [each for each in lines if each.startswith("end ")]
            await append(writer, numbered(1, start=5))
            assert (await writer.seal()).last == 5

    asyncio.run(body())


def test_the_shell_of_bookkeeper_shows_our_ledgers(bookies: BookieCluster) -> None:
    async def body() -> LedgerId:
        async with bookkeeper_store(bookies) as store:
            writer = await store.create(
                term=ONE, properties={"made-by": "magnetar"}, digest=Digest.CRC32
            )
            await append(writer, numbered(3))
            await writer.seal()
            return writer.id

    ledger = str(asyncio.run(body()))
    bookie = bookies.bookies[0]
    listed = bookie.shell("listledgers", "-meta")
    assert f"{{ledgerId={ledger}, metadata=" in listed
    metadata = bookie.shell("ledgermetadata", "-ledgerid", ledger)
    assert "CLOSED" in metadata and "digestType=CRC32" in metadata and "lastEntryId=2" in metadata
    read = bookie.shell("readledger", "-ledgerid", ledger, "-fe", "0", "-le", "2", "-m")
    assert [f"{number:020d}" in read for number in range(3)] == [True] * 3
