"""Carrying out a promotion: ledgers first, each verified, then the records that name them.

Everything can be done again: what is there already, as it ought to be, is passed over. A ledger
says in its properties from which directory it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from crc32c import crc32c

from magnetar.app.promotion_plan import CarriedLedger, PromotionPlan, find_cursors, plan_promotion
from magnetar.app.promotion_source import Source
from magnetar.broker.broker_directory import BROKERS
from magnetar.broker.resource import CLUSTERS, POLICIES
from magnetar.errors import BrokerError, LedgerNotFound, PromotionRefused, VersionConflict
from magnetar.ledger.belonging import UseKind
from magnetar.ledger.store import Digest, LedgerStore, LedgerWriter
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.log_path import LOGS
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import EntryId, LedgerId
from magnetar.model.stored_log import CursorInfo
from magnetar.rules.system import SYSTEM_NAMESPACE
from magnetar.wire.compacted import decode_former_compacted, encode_compacted
from magnetar.wire.storage import decode_cursor_entry

ORIGIN: Final = "magnetar/promoted-from"
_READ_ENTRIES: Final = 1_000
_READ_BYTES: Final = 1 << 20


class TargetLedgers(LedgerStore, Protocol):
    async def create_at(
        self, ledger: LedgerId, *, properties: Mapping[str, str], digest: Digest = Digest.CRC32C
    ) -> LedgerWriter:
        """Make a ledger with a given id; one with the same properties that was never closed is
        begun again. Raise VersionConflict when the id is taken.
        """

    async def reserve(self, above: int) -> None:
        """Give no id up to this one to a new ledger from now on."""


@dataclass(frozen=True, slots=True)
class Progress:
    ledgers: int
    ledgers_all: int
    entries: int
    size: int
    size_all: int


class Promotion:
    """`report` is called as the copy goes on."""

    def __init__(
        self,
        source: Source,
        store: MetadataStore,
        ledgers: TargetLedgers,
        report: Callable[[Progress], None],
    ) -> None:
        self._source = source
        self._store = store
        self._ledgers = ledgers
        self._report = report

    async def run(self, plan: PromotionPlan) -> Progress:
        """Raise PromotionRefused before anything is written when the cluster has what the directory
        would bring, and when a ledger is not found there as it was copied.
        """
        await self._check_quiet()
        absent = await self._compare(plan.records)
        taken = [each for each in plan.ledgers if not await self._is_ours_or_free(each)]
        if taken:
            number = taken[0].info.id
            raise PromotionRefused(
                f"ledger {number} of the directory has an id that a ledger of the cluster has"
                " already. Messages keep their ids, so promote into a cluster that was just set up,"
                " before the first broker makes ledgers there"
            )
        await self._ledgers.reserve(self._source.next_ledger)
        size_all = sum(each.info.length for each in plan.ledgers)
        done = Progress(0, len(plan.ledgers), 0, 0, size_all)
        for each in plan.ledgers:
            await self._copy(each)
            done = Progress(
                done.ledgers + 1,
                done.ledgers_all,
                done.entries + each.info.last + 1,
                done.size + each.info.length,
                size_all,
            )
            self._report(done)
        await self._check_quiet()
        for path in absent:
            await self._write(path, plan.records[path])
        return done

    # ------------------------------------------------------------------ before

    async def _check_quiet(self) -> None:
        brokers = await self._store.children(BROKERS)
        if brokers:
            raise PromotionRefused(
                f"brokers are running in the cluster: {', '.join(brokers)}. Stop them, promote, and"
                " start them again"
            )

    async def _compare(self, records: Mapping[str, bytes]) -> list[str]:
        """The records that are to be written, in their order."""
        absent = []
        for path, value in records.items():
            found = await self._store.get(path)
            if found is not None and found.value == value:
                continue
            if found is not None and found.value:
                own = (f"{POLICIES}/pulsar", f"{POLICIES}/{SYSTEM_NAMESPACE}")
                if path in own or path.startswith(f"{CLUSTERS}/"):
                    continue  # the cluster's own
                if not await self._may_replace(path, records):
                    raise PromotionRefused(
                        f"{path} is in the cluster already, and says something else"
                    )
            absent.append(path)
        return absent

    async def _may_replace(self, path: str, records: Mapping[str, bytes]) -> bool:
        """Policies of a namespace that has no topics but those of the directory: setting a cluster
        up makes some.
        """
        if not path.startswith(f"{POLICIES}/"):
            return False
        below = path.removeprefix(POLICIES)
        for domain in await self._store.children(f"{LOGS}{below}"):
            for node in await self._store.children(f"{LOGS}{below}/{domain}"):
                prefix = f"{LOGS}{below}/{domain}/{node}"
                if not any(f"{each}/".startswith(f"{prefix}/") for each in records):
                    return False
        return True

    async def _is_ours_or_free(self, carried: CarriedLedger) -> bool:
        try:
            found = await self._ledgers.describe(carried.info.id)
        except LedgerNotFound:
            return True
        return found.properties == self._properties(carried)

    # ------------------------------------------------------------------ ledgers

    def _properties(self, carried: CarriedLedger) -> dict[str, str]:
        return carried.use.format() | {ORIGIN: self._source.identity}

    async def _copy(self, carried: CarriedLedger) -> None:
        """Copy a ledger unless that was done, and read it back: count and checksum must agree."""
        number, last = carried.info.id, carried.info.last
        expected = 0
        try:
            is_there = (await self._ledgers.describe(number)).sealed
        except LedgerNotFound:
            is_there = False
        if is_there:
            async for entries in self._read_source(carried):
                expected = _digest(expected, entries)
        else:
            is_compacted = carried.use.kind is UseKind.COMPACTED
            try:
                writer = await self._ledgers.create_at(
                    number,
                    properties=self._properties(carried),
                    digest=Digest.CRC32 if is_compacted else Digest.CRC32C,
                )
            except VersionConflict:
                raise PromotionRefused(
                    f"ledger {number} was made by another client of the cluster meanwhile"
                ) from None
            async for entries in self._read_source(carried):
                expected = _digest(expected, entries)
                await _append(writer, entries)
            await writer.seal()
        found, count = await self._read_back(number)
        if (count, found) != (last + 1, expected):
            raise PromotionRefused(
                f"ledger {number} has {last + 1} entries with checksum {expected:08x} in the"
                f" directory, and {count} with {found:08x} in the cluster; nothing names it there:"
                " bookies may still have entries of a ledger with this id that was deleted; promote"
                " into another cluster, or again when they have let go of it"
            )

    async def _read_source(self, carried: CarriedLedger) -> AsyncIterator[list[bytes]]:
        first = 0
        while entries := await self._source.read(carried.info.id, first):
            first += len(entries)
            if carried.is_former:
                entries = [_renew(each, parse_topic(carried.use.owner)) for each in entries]
            yield entries

    async def _read_back(self, number: LedgerId) -> tuple[int, int]:
        checksum = count = 0
        while entries := await self._ledgers.read(
            number, EntryId(count), entries_max=_READ_ENTRIES, bytes_max=_READ_BYTES
        ):
            checksum = _digest(checksum, entries)
            count += len(entries)
        return checksum, count

    # ------------------------------------------------------------------ records

    async def _write(self, path: str, value: bytes) -> None:
        found = await self._store.get(path)
        expect = ABSENT if found is None else found.stat.version
        try:
            await self._store.put(path, value, expect=expect)
        except VersionConflict:
            raise PromotionRefused(
                f"{path} was written by another client of the cluster meanwhile"
            ) from None


async def plan_source(source: Source, *, cluster: str) -> PromotionPlan:
    """What to carry, with the last state of every cursor."""
    ledgers = source.ledgers
    states: dict[str, CursorInfo] = {}
    for path, record in find_cursors(source.records):
        states[path] = record
        info = ledgers.get(record.ledger_id)
        if info is not None and info.last >= 0:
            (entry,) = await source.read(record.ledger_id, info.last)
            states[path] = replace(
                decode_cursor_entry(entry),
                cursor_properties=record.cursor_properties,
                rest=record.rest,
            )
    return plan_promotion(source.records, ledgers, states, cluster=cluster)


async def find_cluster(store: MetadataStore, chosen: str | None) -> str:
    """The name of the cluster. Raise PromotionRefused when it does not tell."""
    known = [name for name in await store.children(CLUSTERS) if name != "global"]
    if chosen is not None:
        if known and chosen not in known:
            raise PromotionRefused(f"there is no cluster {chosen}: there is {', '.join(known)}")
        return chosen
    if len(known) != 1:
        found = "no cluster is named" if not known else f"there are {', '.join(known)}"
        raise PromotionRefused(f"{found} at {CLUSTERS}: name the cluster with --cluster")
    return known[0]


def _renew(former: bytes, topic: TopicName) -> bytes:
    """An entry of a compacted ledger in Pulsar's format."""
    position, entry = decode_former_compacted(former)
    return encode_compacted(position, topic.partition_index, entry)


def _digest(checksum: int, entries: list[bytes]) -> int:
    """Over every entry and its length, so that no boundary can move."""
    for entry in entries:
        checksum = crc32c(entry, crc32c(len(entry).to_bytes(4, "big"), checksum))
    return checksum


async def _append(writer: LedgerWriter, entries: list[bytes]) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_appended(error: BrokerError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    writer.append(entries, on_appended)
    await done
