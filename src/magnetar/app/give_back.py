"""`magnetar give-back`: see that brokers of Apache Pulsar may serve a cluster after ours.

They know none of our own fields: a change of segments that was begun would be forgotten, and so
would a cursor that only the record of its log names. The latter are written out here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from magnetar.app.metadata import open_zookeeper
from magnetar.broker.broker_directory import BROKERS
from magnetar.broker.log_record import MetadataLogRecords
from magnetar.broker.transaction.participant import is_clear_to_apache
from magnetar.errors import MagnetarError
from magnetar.ledger.birth import parse_born, without_list
from magnetar.ledger.sequence import LedgerSequence
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.log_path import JOURNALS, LOGS, is_bucket, log_path
from magnetar.model.migration import PREPARATIONS
from magnetar.model.name import TopicDomain, decode_local, parse_stored_topic
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import TOPICS, SubscriptionState, unescape_component
from magnetar.model.stored_log import CursorInfo
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.wire.scalable import decode_subscription, decode_topic_record

_PARTICIPANTS: Final = f"{JOURNALS}/participant"
_FINISH: Final = "start a broker of ours, which finishes that, and stop it"


def run(*, metadata: str | None, config: Path | None = None, overrides: Sequence[str] = ()) -> int:
    """Print what is left to do; 0 when nothing is."""
    chosen = [*overrides, f"metadataStoreUrl={metadata}"] if metadata else overrides
    try:
        settings = Configuration.load(config, chosen, standalone=False)
        left = asyncio.run(_inspect(settings))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    for sentence in left:
        print(f"LEFT  {sentence}")
    if not left:
        print("ok    nothing is left: brokers of Apache Pulsar may serve this cluster")
    return 1 if left else 0


async def _inspect(settings: Configuration) -> list[str]:
    async with AsyncExitStack() as stack:
        store = await open_zookeeper(stack, settings, settings.metadataStoreUrl, SystemClock())
        return [sentence async for sentence in find_left(store)]


async def find_left(store: MetadataStore) -> AsyncIterator[str]:
    """What has to be done before brokers of Apache Pulsar start; cursors are written out, unless a
    broker of ours is still there to do it.
    """
    brokers = await store.children(BROKERS)
    for broker in brokers:
        yield f"broker {broker} is running, or was killed and its session has not ended: stop it"
    async for sentence in _find_changes(store):
        yield sentence
    if brokers:
        return
    async for path in _find_logs(store):
        if is_bucket(path.rpartition("/")[2]):
            yield f"{path} is a topic bucket, which Apache Pulsar does not know"
        else:
            await write_cursors(MetadataLogRecords(store, path))


async def _find_changes(store: MetadataStore) -> AsyncIterator[str]:
    async for tenant, namespace, prefix in _find_namespaces(store, TOPICS):
        async for topic, record in store.scan_children(prefix):
            name = f"topic://{tenant}/{namespace}/{unescape_component(topic)}"
            intent = decode_topic_record(record.value).intent
            if intent is not None:
                kind = type(intent).__name__.removesuffix("Intent").lower()
                yield f"{name} has a {kind} that was begun: {_FINISH}"
            async for each, kept in store.scan_children(f"{prefix}/{topic}/subscriptions"):
                if decode_subscription(kept.value).state is not SubscriptionState.READY:
                    yield f"subscription {each} of {name} is being made or removed: {_FINISH}"
    for each in await store.children(PREPARATIONS):
        yield f"{PREPARATIONS}/{each}: a migration is being prepared; wait for it, or take it back"
    for encoded in await store.children(_PARTICIPANTS):
        used = parse_stored_topic(decode_local(encoded))
        loaded = await MetadataLogRecords(store, log_path(used, 1)).load()
        if loaded is not None and not is_clear_to_apache(loaded[0]):
            yield (
                f"{used} has transactions of ours that are open, were aborted or stand among those"
                " of Apache Pulsar, which does not know how they ended: let a broker of ours serve"
                " it until what they wrote is consumed and no longer retained, then stop it"
            )


async def _find_logs(store: MetadataStore) -> AsyncIterator[str]:
    async for _, _, prefix in _find_namespaces(store, LOGS):
        for topic in await store.children(f"{prefix}/{TopicDomain.PERSISTENT.value}"):
            yield f"{prefix}/{TopicDomain.PERSISTENT.value}/{topic}"
        segments = f"{prefix}/{TopicDomain.SEGMENT.value}"
        for topic in await store.children(segments):
            for descriptor in await store.children(f"{segments}/{topic}"):
                yield f"{segments}/{topic}/{descriptor}"


async def _find_namespaces(store: MetadataStore, root: str) -> AsyncIterator[tuple[str, str, str]]:
    for tenant in await store.children(root):
        for namespace in await store.children(f"{root}/{tenant}"):
            yield tenant, namespace, f"{root}/{tenant}/{namespace}"


async def write_cursors(records: MetadataLogRecords) -> None:
    """Give every cursor that a log was made with a record of its own."""
    loaded = await records.load()
    born = () if loaded is None else parse_born(loaded[0].properties)
    if loaded is None or not born:
        return
    info, version = loaded
    start = LedgerSequence().restore(info.ledgers).mark_before(EARLIEST)
    present = await records.load_cursors()
    for name in born:
        if name not in present:
            await records.store_cursor(name, CursorInfo(-1, start), expect=ABSENT)
    kept = without_list(info.properties)
    await records.store(replace(info, properties=kept, owner=""), expect=version)
