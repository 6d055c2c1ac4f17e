"""The store on bookies that fail as they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import pytest

from magnetar.errors import (
    BookieUnavailable,
    BrokerError,
    EntryTooLarge,
    InvalidConfiguration,
    LedgerCorrupt,
    LedgerFenced,
    LedgerSealed,
    NotEnoughBookies,
    StorageFailed,
    StoreUnavailable,
)
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore
from magnetar.ledger.backends.bookkeeper.frame import Code
from magnetar.ledger.backends.bookkeeper.writer import BookkeeperWriter
from magnetar.ledger.store import Digest, LedgerInfo, Replication
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.sequence import take_number
from magnetar.metadata.store import ANY_VERSION
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.runtime.clock import SYSTEM
from magnetar.wire.bookkeeper import DigestType
from tests.unit.ledger.bookkeeper.bookie_place import FAST, FakeBookie, Place, bookies
from tests.unit.ledger.file_place import ONE, append, numbered, read_all

TWO = Replication(2, 2, 2)


def run(count: int, body: Callable[[Place], Awaitable[None]], **options: object) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), bookies(count, **options) as place:
            await body(place)

    asyncio.run(inside())


async def create(
    store: BookkeeperLedgerStore, replication: Replication = TWO, **words: object
) -> BookkeeperWriter:
    return await store.create(term=ONE, properties={}, replication=replication, **words)  # type: ignore[arg-type]


def members(writer: BookkeeperWriter) -> tuple[str, ...]:
    return writer.metadata.segments[-1].bookies


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_what_is_appended_in_one_turn_leaves_in_one_write_for_each_bookie() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            answers: list[BrokerError | None] = []
            for number in range(30):
                writer.append(numbered(1, start=number), answers.append)
            await until(lambda: len(answers) == 30)
            assert answers == [None] * 30
            assert [each.connections for each in place.bookies] == [1, 1]
            counters = store.counters()
            assert set(counters) == {each.address for each in place.bookies}
            assert [each["bookie_adds"] for each in counters.values()] == [30, 30]

    run(2, body)


@pytest.mark.parametrize(
    "harm",
    ["stop", "silent", Code.READ_ONLY, Code.INPUT_OUTPUT, Code.TOO_MANY_REQUESTS, Code.BAD_REQUEST],
)
def test_a_bookie_that_fails_is_replaced_from_the_first_entry_that_is_not_durable(
    harm: str | Code,
) -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(10))
            victim = place.at(members(writer)[1])
            if harm == "stop":
                await victim.stop()
            elif harm == "silent":
                victim.is_silent = True
            else:
                assert isinstance(harm, Code)
                victim.refusal = harm
            await append(writer, numbered(10, start=10))
            assert [each.first for each in writer.metadata.segments] == [0, 10]
            assert victim.address not in members(writer)
            info = await writer.seal()
            assert (info.last, info.length) == (19, 400)
            assert await read_all(store, writer.id) == numbered(20)
            fresh = await create(store)
            assert victim.address not in members(fresh)

    run(3, body)


def test_an_idle_ledger_is_not_changed_when_a_bookie_restarts() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(3))
            victim = place.at(members(writer)[0])
            await victim.stop()
            await victim.start()
            await append(writer, numbered(3, start=3))
            assert len(writer.metadata.segments) == 1
            assert victim.connections == 2

    run(3, body)


def test_two_bookies_that_fail_at_once_are_replaced() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store, Replication(3, 3, 2))
            await append(writer, numbered(5))
            for address in members(writer)[:2]:
                await place.at(address).stop()
            await append(writer, numbered(5, start=5))
            await writer.seal()
            assert await read_all(store, writer.id) == numbered(10)

    run(5, body)


def test_a_replacement_that_fails_too_is_replaced() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(5))
            for bookie in place.bookies:
                if bookie.address not in members(writer):
                    bookie.refusal = Code.READ_ONLY
            spare = place.bookies[-1]
            if spare.address in members(writer):
                spare = next(b for b in place.bookies if b.address not in members(writer))
            spare.refusal = None
            await place.at(members(writer)[0]).stop()
            await append(writer, numbered(5, start=5))
            assert spare.address in members(writer)
            assert await read_all(store, writer.id) == numbered(10)

    run(5, body)


def test_with_too_few_bookies_what_is_not_durable_is_refused_and_the_rest_is_sealed() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(5))
            await place.at(members(writer)[0]).stop()
            with pytest.raises(NotEnoughBookies):
                await append(writer, numbered(5, start=5))
            with pytest.raises(LedgerSealed):
                writer.append([b"late"], lambda _: None)
            info = await writer.seal()
            assert (info.last, info.length, info.sealed) == (4, 100, True)
            assert await writer.seal() == info
            assert store.queued_bytes == 0

    run(2, body)


def test_without_a_spare_writing_goes_on_while_an_ack_quorum_is_left() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store, Replication(3, 3, 2))
            await append(writer, numbered(5))
            lost = place.at(members(writer)[2])
            await lost.stop()
            await append(writer, numbered(5, start=5))
            assert len(writer.metadata.segments) == 1
            spare = await place.add()
            await until(lambda: spare.address in members(writer))
            await append(writer, numbered(5, start=10))
            await writer.seal()
            assert await read_all(store, writer.id) == numbered(15)

    run(3, body)


def test_an_ensemble_is_made_smaller_down_to_the_write_quorum() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store, Replication(5, 2, 2))
            assert len(members(writer)) == 3
            with pytest.raises(NotEnoughBookies, match="3 bookies take entries, 4 copies"):
                await create(store, Replication(5, 4, 2))

    run(3, body)


def test_racks_are_spread_over_and_enforced_by_configuration() -> None:
    async def body(place: Place) -> None:
        racks = ",".join(
            f'"{bookie.address}":{{"rack":"/r{number % 2}"}}'
            for number, bookie in enumerate(place.bookies)
        )
        path, metadata = "/bookies", MemoryStore(place.tree)
        await metadata.put(path, b'{"default":{%s}}' % racks.encode(), expect=ANY_VERSION)
        parity = {each.address: number % 2 for number, each in enumerate(place.bookies)}
        async with place.store(min_racks=2, enforce_racks=True) as store:
            for _ in range(10):
                found = members(await create(store))
                assert {parity[each] for each in found} == {0, 1}
            await metadata.put(path, b"no JSON", expect=ANY_VERSION)
            await until(lambda: not store._around.registry.known.racks)
            with pytest.raises(NotEnoughBookies, match="racks"):
                await create(store)

    run(4, body)


def test_racks_come_from_the_metadata_of_the_brokers_and_bookies_that_are_away_are_listed() -> None:
    async def body(place: Place) -> None:
        own, other = MemoryStore(place.tree), MemoryStore(MemoryTree(SYSTEM))
        bookie = place.bookies[0].address
        racks = b'{"g":{"%s":{"rack":"r1","hostname":"h"}}}' % bookie.encode()
        await other.put("/bookies", racks, expect=ANY_VERSION)
        await own.put("/ledgers/cookies/gone:3181", b"", expect=ANY_VERSION)
        store = BookkeeperLedgerStore(
            own, partial(take_number, own), clock=SYSTEM, policy=FAST, racks=other
        )
        await store.open()
        try:
            assert store._around.registry.known.racks == {bookie: "/r1"}
            assert await store.list_bookies() == (bookie, "gone:3181")
        finally:
            await store.close()

    run(1, body)


def test_a_fence_ends_the_writer_and_recovery_keeps_what_was_granted() -> None:
    async def body(place: Place) -> None:
        async with place.store() as old, place.store() as new:
            writer = await create(old)
            await append(writer, numbered(5))
            info = await new.recover(writer.id, term=Term(1))
            assert (info.last, info.length, info.sealed) == (4, 100, True)
            with pytest.raises(LedgerFenced):
                await append(writer, [b"late"])
            with pytest.raises(LedgerFenced):
                await writer.seal()
            assert await read_all(new, writer.id) == numbered(5)

    run(3, body)


def test_an_entry_on_a_single_bookie_is_kept_and_written_to_its_quorum() -> None:
    async def body(place: Place) -> None:
        async with place.store() as old, place.store() as new:
            writer = await create(old)
            await append(writer, numbered(5))
            behind = place.at(members(writer)[1])
            behind.is_silent = True
            writer.append(numbered(1, start=5), lambda _: None)
            ahead = place.at(members(writer)[0])
            await until(lambda: 5 in ahead.entries[writer.id])
            behind.entries[writer.id].pop(5, None)
            behind.is_silent = False
            info = await new.recover(writer.id, term=ONE)
            assert info.last == 5
            assert 5 in behind.entries[writer.id]

    run(2, body)


def test_nothing_is_sealed_while_a_bookie_that_may_have_an_entry_does_not_answer() -> None:
    async def body(place: Place) -> None:
        async with place.store() as old, place.store() as new:
            writer = await create(old, Replication(2, 2, 1))
            await append(writer, numbered(5))
            lost = place.at(members(writer)[0])
            await lost.stop()
            sentence = f"cannot be recovered.*; bring back {lost.address}"
            with pytest.raises(BookieUnavailable, match=sentence):
                await new.recover(writer.id, term=ONE)
            assert not (await old.describe(writer.id)).sealed
            await lost.start()
            assert (await new.recover(writer.id, term=ONE)).last == 4

    run(2, body)


def test_a_recovery_replaces_a_bookie_in_the_record_that_it_closes() -> None:
    async def body(place: Place) -> None:
        async with place.store() as old, place.store() as new:
            writer = await create(old, Replication(3, 3, 2))
            await append(writer, numbered(5))
            lost = place.at(members(writer)[0])
            await lost.stop()
            info = await new.recover(writer.id, term=ONE)
            assert info.last == 4
            assert await read_all(new, writer.id) == numbered(5)
            found = await new._load(writer.id)
            assert lost.address not in found.segments[-1].bookies

    run(4, body)


def test_a_wrong_password_is_a_refusal_and_no_reason_to_replace_a_bookie() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            for bookie in place.bookies:
                bookie.refusal = Code.UNAUTHORIZED
            with pytest.raises(StorageFailed, match="password"):
                await append(writer, [b"x"])
            assert len(writer.metadata.segments) == 1

    run(3, body)


def test_an_entry_that_bookies_would_hang_up_over_is_refused_before_it_is_sent() -> None:
    async def body(place: Place) -> None:
        async with place.store(frame_bytes_max=1000) as store:
            writer = await create(store)
            largest = 1000 - 24 - 36
            await append(writer, [b"x" * largest, b"y"])
            answers: list[BrokerError | None] = []
            writer.append([b"before"], answers.append)
            writer.append([b"x" * (largest + 1)], answers.append)
            with pytest.raises(LedgerSealed):
                writer.append([b"behind"], answers.append)
            await until(lambda: len(answers) == 2)
            assert answers[0] is None and isinstance(answers[1], EntryTooLarge)
            assert (await writer.seal()).last == 2

    run(2, body)


def test_an_older_bookie_without_batches_is_read_one_by_one() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(100))
            for _ in range(3):
                assert await read_all(store, writer.id) == numbered(100)
            assert sum(each.batches for each in place.bookies) == 0
            assert sum(each.reads for each in place.bookies) >= 100
            await append(writer, numbered(1, start=100))  # its connection was left alone
            assert len(writer.metadata.segments) == 1

    run(2, body, has_batches=False)


def test_many_entries_are_read_in_batches_from_one_bookie() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(1000))
            found = await store.read(writer.id, EntryId(0), entries_max=1000, bytes_max=1 << 20)
            assert found == numbered(1000)
            assert sorted(each.batches for each in place.bookies) == [0, 1]

    run(2, body)


@pytest.mark.parametrize("replication", [TWO, Replication(3, 2, 2)])
def test_a_damaged_copy_is_passed_over_and_two_are_named(replication: Replication) -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store, replication)
            await append(writer, numbered(10))
            await writer.seal()
            place.bookies[0].damaged = {0, 3, 4}
            assert await read_all(store, writer.id) == numbered(10)
            for bookie in place.bookies:
                bookie.damaged = {5}
            assert len(await store.read(writer.id, EntryId(0), entries_max=9, bytes_max=999)) == 5
            with pytest.raises(LedgerCorrupt, match=f"ledger {writer.id}, entry 5"):
                await store.read(writer.id, EntryId(5), entries_max=9, bytes_max=999)

    run(3, body)


def test_an_entry_that_no_bookie_has_is_named() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(3))
            await writer.seal()
            for bookie in place.bookies:
                bookie.entries.clear()
            with pytest.raises(LedgerCorrupt, match="does not have entry 0"):
                await store.read(writer.id, EntryId(0), entries_max=1, bytes_max=1)

    run(2, body)


def test_a_slow_read_is_sent_to_another_bookie_after_the_speculative_delay() -> None:
    async def body(place: Place) -> None:
        async with place.store(speculative_read_s=0.02, timeout_s=30.0) as store:
            writer = await create(store)
            await append(writer, numbered(3))
            for bookie in place.bookies:
                bookie.is_silent = True
                assert await read_all(store, writer.id) == numbered(3)
                bookie.is_silent = False

    run(2, body)


def test_a_read_waits_for_a_silent_bookie_no_longer_than_its_time() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(3))
            for bookie in place.bookies:
                bookie.is_silent = True
            with pytest.raises(BookieUnavailable, match="did not answer within"):
                await store.read(writer.id, EntryId(0), entries_max=3, bytes_max=99)
            place.bookies[0].is_silent = False
            assert len(await store.read(writer.id, EntryId(0), entries_max=3, bytes_max=99)) == 3

    run(2, body)


def test_a_writer_stops_when_another_client_has_begun_to_recover_its_ledger() -> None:
    """Also when no bookie has told it: the record has, at the next change of bookies."""

    async def body(place: Place) -> None:
        async with place.store() as old, place.store() as new:
            writer = await create(old)
            await append(writer, numbered(5))
            await new.recover(writer.id, term=ONE)
            for bookie in place.bookies:
                bookie.fenced.clear()
            await place.at(members(writer)[0]).stop()
            with pytest.raises(LedgerFenced):
                await append(writer, [b"late"])

    run(3, body)


def test_a_digest_is_chosen_for_a_ledger_and_properties_keep_their_bytes() -> None:
    async def body(place: Place) -> None:
        async with place.store(digest=DigestType.HMAC, password=b"pw") as store:
            plain = await create(store)
            crc = await create(store, digest=Digest.CRC32)
            assert plain.metadata.digest is DigestType.HMAC
            assert crc.metadata.digest is DigestType.CRC32
            for writer in (plain, crc):
                await append(writer, numbered(2))
                assert await read_all(store, writer.id) == numbered(2)
            raw = b"\x08\xff\x01".decode("utf-8", "surrogateescape")
            made = await store.create(term=ONE, properties={"pulsar/compactedTo": raw})
            assert dict(made.metadata.properties) == {"pulsar/compactedTo": b"\x08\xff\x01"}
            assert (await store.describe(made.id)).properties == {"pulsar/compactedTo": raw}

    run(2, body)


def test_metadata_without_a_bookkeeper_or_of_another_layout_is_refused() -> None:
    async def body(place: Place) -> None:
        metadata = MemoryStore(place.tree)
        other = b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
        await metadata.put("/ledgers/LAYOUT", other, expect=ANY_VERSION)
        with pytest.raises(InvalidConfiguration, match="FlatLedgerManagerFactory"):
            async with place.store():
                pass
        long = b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1"
        await metadata.put("/ledgers/LAYOUT", long, expect=ANY_VERSION)
        async with place.store() as store:
            writer = await create(store)
            assert (await metadata.children("/ledgers"))[0] == "000"
            assert await store.ledgers() == (writer.id,)
        await metadata.delete("/ledgers/INSTANCEID", expect=ANY_VERSION)
        with pytest.raises(InvalidConfiguration, match="initnewcluster"):
            async with place.store():
                pass

    run(2, body)


def test_ids_go_on_with_the_longer_numbers_when_the_short_ones_are_used_up() -> None:
    async def body(place: Place) -> None:
        metadata = MemoryStore(place.tree)
        await metadata.put("/ledgers/idgen-long/HOB-0000000002", b"x", expect=ANY_VERSION)
        async with place.store() as store:
            writer = await create(store, Replication(1, 1, 1))
            assert writer.id >> 32 == 2
            await append(writer, numbered(2))
            assert await store.ledgers() == (writer.id,)
            assert await read_all(store, writer.id) == numbered(2)
            await store.delete(writer.id)
            assert await store.ledgers() == ()

    run(1, body)


def test_a_store_without_metadata_keeps_reading_and_writing() -> None:
    async def body(place: Place) -> None:
        async with place.store() as store:
            writer = await create(store)
            await append(writer, numbered(3))
            metadata = store._catalogue._store
            assert isinstance(metadata, MemoryStore)
            metadata.disconnect()
            await append(writer, numbered(3, start=3))
            assert await read_all(store, writer.id) == numbered(6)
            with pytest.raises(StoreUnavailable):
                await create(store)
            metadata.reconnect()
            assert (await writer.seal()).last == 5

    run(2, body)


def test_a_recovery_replaces_a_bookie_that_does_not_answer() -> None:
    async def body(place: Place) -> None:
        async with place.store() as old, place.store(timeout_s=0.2) as new:
            writer = await create(old)
            await append(writer, numbered(10))
            silent = writer.metadata.segments[-1].bookies[0]
            next(each for each in place.bookies if each.address == silent).is_silent = True
            info = await new.recover(writer.id, term=ONE)
            assert info.last == 9
            assert await read_all(new, writer.id) == numbered(10)

    run(3, body)


async def harm(place: Place, chance: Random) -> None:
    bookie = chance.choice(place.bookies)
    match chance.randint(0, 6):
        case 0:
            await bookie.stop()
        case 1:
            bookie.is_silent = True
        case 2:
            bookie.refusal = chance.choice((Code.READ_ONLY, Code.INPUT_OUTPUT))
        case 3:
            await revive(bookie)


async def mend(place: Place) -> None:
    for bookie in place.bookies:
        await revive(bookie)


async def revive(bookie: FakeBookie) -> None:
    await bookie.stop()
    bookie.is_silent, bookie.refusal = False, None
    await bookie.start()


async def recover(store: BookkeeperLedgerStore, ledger: LedgerId) -> LedgerInfo:
    while True:
        try:
            return await store.recover(ledger, term=ONE)
        except (BookieUnavailable, NotEnoughBookies):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_fails_nothing_granted_is_lost_and_everything_is_answered_in_order(
    seed: int,
) -> None:
    """Bookies stop, hang, refuse and come back while a writer is busy; then another client takes
    over.
    """

    async def body(place: Place) -> None:
        chance = Random(seed)
        write = chance.randint(1, 3)
        replication = Replication(chance.randint(write, 4), write, chance.randint(1, write))
        async with (
            place.store(timeout_s=0.2, quarantine_s=0.3) as old,
            place.store(timeout_s=9.0) as new,
        ):
            writer = await create(old, replication)
            answers: list[tuple[int, BrokerError | None]] = []
            sent = 0
            for _ in range(chance.randint(5, 40)):
                await harm(place, chance)
                try:
                    for _ in range(chance.randint(1, 5)):
                        run_of = numbered(chance.randint(1, 9), start=sent)
                        number = sent
                        writer.append(run_of, lambda error, n=number: answers.append((n, error)))
                        sent += len(run_of)
                except LedgerSealed:
                    break
                await asyncio.sleep(chance.choice((0, 0, 0.005, 0.05)))
            await mend(place)
            info = await recover(new, writer.id)
            await until(lambda: old.queued_bytes == 0)
            firsts = [first for first, _ in answers]
            assert firsts == sorted(set(firsts))
            granted = [first for first, error in answers if error is None]
            assert granted == firsts[: len(granted)]  # nothing is granted behind a refusal
            entries = await read_all(new, writer.id)
            assert entries == numbered(info.last + 1)
            assert info.length == 20 * (info.last + 1)
            assert not granted or granted[-1] <= info.last
            assert writer.last_confirmed <= info.last

    run(5, body)


@pytest.mark.parametrize("seed", range(12))
def test_a_take_over_amid_failures_loses_nothing_that_was_granted(seed: int) -> None:
    """The writer goes on while others recover its ledger and bookies fail and come back."""

    async def body(place: Place) -> None:
        chance = Random(seed)
        write = chance.randint(1, 3)
        replication = Replication(chance.randint(write, 4), write, chance.randint(1, write))
        async with (
            place.store(timeout_s=0.2, quarantine_s=0.3) as old,
            place.store(timeout_s=0.3, quarantine_s=0.3) as one,
            place.store(timeout_s=0.3, quarantine_s=0.3) as two,
            place.store(timeout_s=9.0) as reader,
        ):
            writer = await create(old, replication)
            granted = -1
            is_calm = is_over = False

            async def publish() -> None:
                sent = 0

                def on_done(last: int, error: BrokerError | None) -> None:
                    nonlocal granted
                    if error is None:
                        granted = last

                while not is_over:
                    count = chance.randint(1, 9)
                    try:
                        writer.append(
                            numbered(count, start=sent), partial(on_done, sent + count - 1)
                        )
                    except LedgerSealed:
                        return
                    sent += count
                    await asyncio.sleep(chance.choice((0, 0, 0.002)))

            async def disturb() -> None:
                while not is_calm:
                    await harm(place, chance)
                    await asyncio.sleep(chance.choice((0, 0.01, 0.05)))

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publish())
                disturbing = tasks.create_task(disturb())
                await asyncio.sleep(chance.choice((0.02, 0.1, 0.3)))
                recoveries = [tasks.create_task(recover(each, writer.id)) for each in (one, two)]
                await asyncio.sleep(chance.choice((0.1, 0.5)))
                is_calm = True
                await disturbing  # one that was cancelled as it starts a bookie would leave it so
                await mend(place)
                found = [await each for each in recoveries]
                is_over = True
            assert found[0] == found[1]
            assert granted <= found[0].last
            assert await read_all(reader, writer.id) == numbered(found[0].last + 1)
            assert found[0].length == 20 * (found[0].last + 1)

    run(5, body)
