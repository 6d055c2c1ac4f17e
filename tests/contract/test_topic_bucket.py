"""A namespace does the same with and without topic buckets, over every metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from magnetar.broker.ledger_sweep import NamedLedgers
from magnetar.errors import BucketsDiffer, RecordUnreadable
from magnetar.ledger.belonging import LedgerUse, UseKind, parse_use
from magnetar.ledger.orphan import remove_orphans
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.document import decode_document, encode_document
from magnetar.model.name import NamespaceName, TopicDomain, parse_topic
from magnetar.model.policy import Policies
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.testing.zookeeper import shared_zookeeper
from tests.contract.metadata_place import PLACES, Place
from tests.unit.admin.assembly import OWNER, V2, Admin, admin_of_new_broker

NAMESPACE = NamespaceName("tenant", "namespace")
POLICIES = f"{V2}/namespaces/{NAMESPACE}"
TOPICS = f"{V2}/persistent/{NAMESPACE}"
SCALABLE = f"{V2}/scalable/{NAMESPACE}"
FULL = f"persistent://{NAMESPACE}"
LOGS = f"/managed-ledgers/{NAMESPACE}"
SETTINGS: dict[str, Any] = {
    "forceDeleteNamespaceAllowed": True,
    "scalableTopicAutoScaleEnabled": False,
}

Body: TypeAlias = Callable[[Admin], Awaitable[None]]


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture(params=[1, 7])
def buckets(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@asynccontextmanager
async def broker(store: MetadataStore, ledgers: LedgerStore) -> AsyncIterator[Admin]:
    async with admin_of_new_broker(metadata=store, disk=ledgers, **SETTINGS) as admin:
        yield admin


def run(place: Place, buckets: int | None, *bodies: Body) -> None:
    """Each body has a broker of its own, after the other, over the same stores."""

    async def main() -> None:
        store, ledgers = await place.open(), MemoryLedgerStore()
        try:
            for number, body in enumerate(bodies):
                async with broker(store, ledgers) as admin:
                    if number == 0:
                        await make_namespace(admin, buckets)
                    await body(admin)
        finally:
            await store.close()

    asyncio.run(main())


async def make_namespace(admin: Admin, buckets: int | None) -> None:
    tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert (await admin.put(f"{V2}/tenants/{NAMESPACE.tenant}", tenant)).status == 204
    asked = {} if buckets is None else {"numberOfTopicBuckets": buckets}
    assert (await admin.put(POLICIES, asked)).status == 204


async def tree(store: MetadataStore, path: str) -> dict[str, Any]:
    """What stands below a path, names only."""
    return {name: await tree(store, f"{path}/{name}") for name in await store.children(path)}


async def make_example(admin: Admin) -> None:
    for topic in ("nptopic1", "nptopic2"):
        assert (await admin.put(f"{TOPICS}/{topic}")).status == 204
    assert (await admin.put(f"{TOPICS}/ptopic/partitions", 4)).status == 204


def test_three_buckets_make_the_tree_of_the_proposal(place: Place) -> None:
    async def body(admin: Admin) -> None:
        await make_example(admin)
        assert (await admin.put(f"{TOPICS}/nptopic1/subscription/s")).status == 204
        assert await tree(admin.service.store, LOGS) == {
            "persistent": {
                "$0": {"ptopic-partition-0": {}, "ptopic-partition-3": {}},
                "$1": {"nptopic2": {}, "ptopic-partition-1": {}},
                "$2": {"nptopic1": {"s": {}}, "ptopic-partition-2": {}},
            }
        }
        assert (await admin.get(POLICIES)).json["numberOfTopicBuckets"] == 3
        assert (await admin.get(f"{POLICIES}/numberOfTopicBuckets")).json == 3

    run(place, 3, body)


@pytest.mark.parametrize("asked", [None, 1])
def test_one_bucket_is_the_flat_tree(place: Place, asked: int | None) -> None:
    async def body(admin: Admin) -> None:
        await make_example(admin)
        partitions = {f"ptopic-partition-{index}": dict[str, Any]() for index in range(4)}
        flat = {"nptopic1": {}, "nptopic2": {}, **partitions}
        assert await tree(admin.service.store, LOGS) == {"persistent": flat}
        assert await admin.service.store.get(LOGS) is None
        assert (await admin.get(f"{POLICIES}/numberOfTopicBuckets")).json == 1

    run(place, asked, body)


def test_topics_live_and_are_found_again(place: Place, buckets: int) -> None:
    odd = ("a%20b", "caf%C3%A9", "%240", "x~1", "polygenelubricants")
    names = sorted(
        f"{FULL}/{local}" for local in ("a b", "café", "$0", "x~1", "polygenelubricants")
    )

    async def fill(admin: Admin) -> None:
        for topic in odd:
            assert (await admin.put(f"{TOPICS}/{topic}")).status == 204
        assert (await admin.put(f"{TOPICS}/a%20b")).status == 409
        assert (await admin.put(f"{TOPICS}/a%20b/subscription/s", "earliest")).status == 204
        for payload in (b"one", b"two"):
            await admin.publish(f"{FULL}/a b", payload, partition_key="k")
        assert (await admin.put(f"{TOPICS}/x~1/properties", {"team": "x"})).status == 204

    async def look(admin: Admin) -> None:
        assert (await admin.get(TOPICS)).json == names
        assert (await admin.get(f"{POLICIES}/topics")).json == names
        info = (await admin.get(f"{TOPICS}/a%20b/internal-info")).json
        assert sum(ledger["entries"] for ledger in info["ledgers"]) == 2
        assert list(info["cursors"]) == ["s"]
        stats = (await admin.get(f"{TOPICS}/a%20b/stats")).json
        assert stats["subscriptions"]["s"]["msgBacklog"] == 2
        assert (await admin.get(f"{TOPICS}/x~1/properties")).json == {"team": "x"}
        assert (await admin.put(f"{TOPICS}/a%20b/compaction")).status == 204
        for _ in range(1000):
            if (await admin.get(f"{TOPICS}/a%20b/compaction")).json["status"] == "SUCCESS":
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("not compacted")
        assert (await admin.post(f"{TOPICS}/caf%C3%A9/terminate")).status == 200
        bundle = (await admin.get(f"{POLICIES}/bundles")).json["boundaries"]
        spans = [f"{first}_{last}" for first, last in pairwise(bundle)]
        found = [(await admin.get(f"{TOPICS}?bundle={span}")).json for span in spans]
        assert sorted(name for each in found for name in each) == names
        assert (await admin.put(f"{POLICIES}/unload")).status == 204
        assert (await admin.delete(f"{TOPICS}/a%20b")).status == 204
        assert (await admin.get(f"{TOPICS}/a%20b/stats")).status == 404
        assert (await admin.get(TOPICS)).json == names[:1] + names[2:]

    run(place, buckets, fill, look)


def test_partitions_come_grow_and_go(place: Place, buckets: int) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/p/partitions", 3)).status == 204
        assert (await admin.put(f"{TOPICS}/p/subscription/s")).status == 204
        assert (await admin.post(f"{TOPICS}/p/partitions", 9)).status == 204
        expected = [f"{FULL}/p-partition-{index}" for index in range(9)]
        assert (await admin.get(TOPICS)).json == expected
        assert (await admin.get(f"{TOPICS}/p/internal-info")).status == 200
        assert (await admin.delete(f"{TOPICS}/p-partition-4?force=true")).status == 204
        assert len((await admin.get(TOPICS)).json) == 8
        assert (await admin.post(f"{TOPICS}/p/createMissedPartitions")).status == 204
        assert (await admin.get(TOPICS)).json == expected
        assert (await admin.delete(f"{TOPICS}/p/partitions?force=true")).status == 204
        assert (await admin.get(TOPICS)).json == []

    run(place, buckets, body)


def test_scalable_topics_split_merge_and_take_regular_ones_over(place: Place, buckets: int) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{SCALABLE}/s?numInitialSegments=2")).status == 204
        assert (await admin.post(f"{SCALABLE}/s/split/0")).status == 204
        assert (await admin.post(f"{SCALABLE}/s/merge/2/3")).status == 204
        assert (await admin.put(f"{TOPICS}/p/partitions", 2)).status == 204
        assert (await admin.post(f"{SCALABLE}/p/migrate")).status == 204
        below = await tree(admin.service.store, f"{LOGS}/segment")
        if buckets > 1:
            assert all(name.startswith("$") for name in below)
            below = {name: each for node in below.values() for name, each in node.items()}
        assert sorted(below) == ["p", "s"]
        assert len(below["p"]) == 2

    async def again(admin: Admin) -> None:
        await admin.service.scalable.resume()
        assert (await admin.get(SCALABLE)).json == [f"topic://{NAMESPACE}/{n}" for n in "ps"]
        for topic in "ps":
            record = (await admin.get(f"{SCALABLE}/{topic}")).json
            for segment in record["segments"].values():
                if segment["active"]:
                    span = segment["hashRange"]
                    name = f"{span['start']:04x}-{span['end']:04x}-{segment['segmentId']}"
                    full = parse_topic(f"segment://{NAMESPACE}/{topic}/{name}")
                    assert (await admin.service.attach_topic(full)).name == full
        assert (await admin.delete(f"{SCALABLE}/s?force=true")).status == 204
        assert (await admin.delete(f"{POLICIES}?force=true")).status == 204
        assert not await admin.service.store.exists(LOGS)

    run(place, buckets, body, again)


def test_a_deleted_namespace_leaves_nothing_and_may_come_back_otherwise(
    place: Place, buckets: int
) -> None:
    async def body(admin: Admin) -> None:
        await make_example(admin)
        assert (await admin.put(f"{TOPICS}/nptopic1/subscription/s")).status == 204
        assert (await admin.put(f"{SCALABLE}/s?numInitialSegments=2")).status == 204
        assert (await admin.delete(POLICIES)).status == 409
        assert (await admin.delete(f"{POLICIES}?force=true")).status == 204
        assert not await admin.service.store.exists(LOGS)
        asked = {"numberOfTopicBuckets": 5}
        assert (await admin.put(POLICIES, asked)).status == 204
        assert (await admin.put(f"{TOPICS}/nptopic1")).status == 204
        assert await tree(admin.service.store, LOGS) == {"persistent": {"$0": {"nptopic1": {}}}}

    run(place, buckets, body)


def test_the_limit_counts_over_all_buckets_but_not_system_topics(
    place: Place, buckets: int
) -> None:
    sentence = "Exceed maximum number of topics in namespace."

    async def body(admin: Admin) -> None:
        assert (await admin.post(f"{POLICIES}/maxTopicsPerNamespace", 5)).status == 204
        events = parse_topic(f"{FULL}/__change_events")
        await admin.service.catalog.load_topic(events, create=True)
        for index in range(3):
            assert (await admin.put(f"{TOPICS}/t-{index}")).status == 204
        reply = await admin.put(f"{TOPICS}/p/partitions", 3)
        assert (reply.status, reply.reason) == (412, sentence)
        assert (await admin.put(f"{TOPICS}/p/partitions", 1)).status == 204
        assert (await admin.put(f"{SCALABLE}/s")).status == 204
        for path in (f"{TOPICS}/t-3", f"{SCALABLE}/s2"):
            reply = await admin.put(path)
            assert (reply.status, reply.reason) == (412, sentence)
        tree = admin.service.tree
        assert await tree.count(NAMESPACE, TopicDomain.PERSISTENT) == 5

    run(place, buckets, body)


def test_no_way_leads_to_another_number(place: Place) -> None:
    async def body(admin: Admin) -> None:
        await make_example(admin)
        before = await tree(admin.service.store, "/managed-ledgers")
        for count in (0, -1, 10_001, 1_000_000_000, 4, 1):
            for reply in (
                await admin.put(POLICIES, {"numberOfTopicBuckets": count}),
                await admin.post(f"{POLICIES}/numberOfTopicBuckets", count),
            ):
                assert reply.status == 412
                assert "numberOfTopicBuckets" in reply.reason
        for count in ("many", "", [3], {"n": 3}, 1.5, True, None):
            assert (await admin.post(f"{POLICIES}/numberOfTopicBuckets", count)).status == 412
        assert (await admin.put(POLICIES, {"numberOfTopicBuckets": 3})).status == 409
        assert (await admin.post(f"{POLICIES}/numberOfTopicBuckets", 3)).status == 204
        assert (await admin.get(f"{POLICIES}/numberOfTopicBuckets")).json == 3
        assert await tree(admin.service.store, "/managed-ledgers") == before

    run(place, 3, body)


@pytest.mark.parametrize("count", [0, -1, 10_001, 1e9, 1e10, 1.5, "many", "0", [], {}, True])
def test_a_bad_number_makes_no_namespace(count: Any) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.put(f"{V2}/namespaces/public/n", {"numberOfTopicBuckets": count})
        assert reply.status == 412
        assert "numberOfTopicBuckets" in reply.reason
        assert (await admin.get(f"{V2}/namespaces/public/n")).status == 404

    async def main() -> None:
        async with admin_of_new_broker() as admin:
            await body(admin)

    asyncio.run(main())


def test_policies_that_lost_the_number_stop_the_topics_instead_of_hiding_them(place: Place) -> None:
    path = f"/admin/policies/{NAMESPACE}"

    async def fill(admin: Admin) -> None:
        await make_example(admin)
        store = admin.service.store
        record = await store.get(path)
        assert record is not None
        await store.put("/kept", record.value, expect=ANY_VERSION)
        policies = decode_document(record.value, Policies)
        assert policies.numberOfTopicBuckets == 3
        lost = encode_document(Policies(replication_clusters=policies.replication_clusters))
        await store.put(path, lost, expect=ANY_VERSION)

    async def look(admin: Admin) -> None:
        store = admin.service.store
        before = await tree(store, LOGS)
        for reply in (
            await admin.get(TOPICS),
            await admin.get(f"{TOPICS}/nptopic1/stats"),
            await admin.put(f"{TOPICS}/new"),
        ):
            assert reply.status == 500
            assert f"are kept in 3 buckets, but {path} tells of 1" in reply.reason
        with pytest.raises(BucketsDiffer):
            await admin.service.catalog.load_topic(parse_topic(f"{FULL}/nptopic1"), create=True)
        await store.put(path, b"{", expect=ANY_VERSION)
        with pytest.raises(RecordUnreadable):
            await admin.service.catalog.load_topic(parse_topic(f"{FULL}/nptopic1"), create=True)
        assert await tree(store, LOGS) == before
        kept = await store.get("/kept")
        assert kept is not None
        await store.put(path, kept.value, expect=ANY_VERSION)
        assert len((await admin.get(TOPICS)).json) == 6

    run(place, 3, fill, look)


def test_ledgers_in_use_are_found_in_their_buckets_when_a_crash_is_tidied_up(place: Place) -> None:
    async def body(admin: Admin) -> None:
        service = admin.service
        for topic in ("nptopic1", "nptopic2"):
            await admin.put(f"{TOPICS}/{topic}")
            await admin.publish(f"{FULL}/{topic}", b"one")
        suspects = await service.ledgers.ledgers()
        await service.ledgers.intend_deletion(suspects)
        await (await service.tree.records(parse_topic(f"{FULL}/nptopic2"))).remove()
        # Without the policies the number that is kept beside the topics has to do.
        await service.store.delete(f"/admin/policies/{NAMESPACE}", expect=ANY_VERSION)

        named = NamedLedgers(service.tree, service.schemas.storage, service.ledgers)
        found = await remove_orphans(service.ledgers, suspects, named.has, term=OWNER.term)
        assert len(found.removed) == 1
        kept = await service.ledgers.describe(*(set(suspects) - set(found.removed)))
        assert parse_use(kept.properties) == LedgerUse(UseKind.LOG, f"{FULL}/nptopic1")
        assert not kept.deletion_intended

    run(place, 3, body)


def test_the_shell_of_zookeeper_shows_the_tree_of_the_proposal() -> None:
    server = shared_zookeeper()
    url = server.new_url()
    root = url.removeprefix(server.url)

    async def main() -> None:
        store = await ZookeeperStore.open(url)
        async with broker(store, MemoryLedgerStore()) as admin:
            await make_namespace(admin, 3)
            await make_example(admin)
            await asyncio.to_thread(look)
        await store.close()

    def look() -> None:
        shown = server.shell("ls", "-R", f"{root}{LOGS}").splitlines()
        below = [line.removeprefix(root) for line in shown if line.startswith(f"{root}{LOGS}/")]
        assert below == [
            f"{LOGS}/persistent{rest}"
            for rest in (
                "",
                "/$0",
                "/$1",
                "/$2",
                "/$0/ptopic-partition-0",
                "/$0/ptopic-partition-3",
                "/$1/nptopic2",
                "/$1/ptopic-partition-1",
                "/$2/nptopic1",
                "/$2/ptopic-partition-2",
            )
        ]

    asyncio.run(main())
