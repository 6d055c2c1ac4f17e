"""Lists of topics by page and by line, with and without buckets, over every metadata store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from magnetar.broker.topic_tree import TopicTree
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from tests.contract.metadata_place import PLACES, Place
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker

NAMESPACE = NamespaceName("public", "many")
POLICIES = f"{V2}/namespaces/{NAMESPACE}"
TOPICS = f"{V2}/persistent/{NAMESPACE}"
LOCALS = sorted([*(f"orders-{index:03d}" for index in range(150)), "a b", "café", "$0", "x~1"])
NAMES = [f"persistent://{NAMESPACE}/{local}" for local in LOCALS]


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture(params=[1, 7, 1000])
def buckets(request: pytest.FixtureRequest) -> int:
    return int(request.param)


class CountingStore:
    """Lets everything through; knows how many names each listing told."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.listed: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def children(self, path: str) -> tuple[str, ...]:
        found = await self._store.children(path)
        if path.startswith("/managed-ledgers/"):
            self.listed.append(len(found))
        return found


def run(
    place: Place, buckets: int, body: Callable[[Admin, CountingStore], Awaitable[None]]
) -> None:
    async def main() -> None:
        opened = await place.open()
        store = CountingStore(opened)
        try:
            async with admin_of_new_broker(metadata=store) as admin:
                asked = {"numberOfTopicBuckets": buckets}
                assert (await admin.put(POLICIES, asked)).status == 204
                await fill(admin)
                store.listed.clear()
                await body(admin, store)
        finally:
            await opened.close()

    asyncio.run(main())


async def fill(admin: Admin) -> None:
    """The records that the broker makes, without opening a ledger for each."""

    async def make(local: str) -> None:
        name = TopicName(TopicDomain.PERSISTENT, NAMESPACE, local)
        path = await admin.service.tree.path_of(name)
        await admin.service.store.put(path, b"", expect=ABSENT)

    await admin.service.tree.claim(NAMESPACE)
    await asyncio.gather(*map(make, [*LOCALS, "__change_events"]))


async def read_pages(admin: Admin, limit: int, *, more: str = "") -> list[list[str]]:
    pages: list[list[str]] = []
    after = ""
    while True:
        page = (await admin.get(f"{TOPICS}?limit={limit}{more}{after}")).json
        pages.append(page)
        if len(page) < limit:
            return pages
        after = f"&after={page[-1].replace('$', '%24').replace(' ', '+').replace('é', '%C3%A9')}"


def test_pages_tell_every_name_once(place: Place, buckets: int) -> None:
    async def body(admin: Admin, store: CountingStore) -> None:
        assert (await admin.get(TOPICS)).json == NAMES
        for limit in (1, 7, 154, 1000):
            if limit == 1 and buckets == 1000:
                continue  # a request for each of them adds nothing but time
            pages = await read_pages(admin, limit)
            assert all(len(page) == limit for page in pages[:-1])
            assert sorted(name for page in pages for name in page) == NAMES
        everything = await read_pages(admin, 1000, more="&includeSystemTopic=true")
        assert sorted(everything[0]) == sorted(
            [*NAMES, f"persistent://{NAMESPACE}/__change_events"]
        )

    run(place, buckets, body)


def test_lines_tell_the_same_names(place: Place, buckets: int) -> None:
    async def body(admin: Admin, store: CountingStore) -> None:
        pages = await read_pages(admin, 20)
        for path in (TOPICS, f"{POLICIES}/topics", f"{POLICIES}/topics?mode=ALL&x="):
            asked = await admin.call("GET", path, accept="application/x-ndjson")
            spelled = await admin.get(f"{path}{'&' if '?' in path else '?'}format=ndjson")
            assert asked.headers["content-type"] == "application/x-ndjson"
            assert asked.body == spelled.body
            names = [json.loads(line) for line in asked.body.splitlines()]
            assert names == [name for page in pages for name in page]
        some = await admin.get(f"{TOPICS}?format=ndjson&limit=5&after={pages[0][-1]}")
        assert [json.loads(line) for line in some.body.splitlines()] == pages[1][:5]
        whole = await admin.call("GET", f"{TOPICS}?format=json", accept="application/x-ndjson")
        assert whole.json == NAMES

    run(place, buckets, body)


def test_a_count_and_a_page_do_not_list_the_namespace(place: Place) -> None:
    async def body(admin: Admin, store: CountingStore) -> None:
        count = (await admin.get(f"{POLICIES}/topics/count")).json
        assert count == {"persistent": len(NAMES) + 1, "non-persistent": 0, "topic": 0}
        assert (await admin.post(f"{POLICIES}/maxTopicsPerNamespace", 10)).status == 204
        assert (await admin.put(f"{TOPICS}/new")).status == 412
        assert store.listed == []
        page = (await admin.get(f"{TOPICS}?limit=10")).json
        assert len(page) == 10
        assert len(store.listed) == 1 and store.listed[0] < 40
        again = (await admin.get(f"{TOPICS}?limit=10&after={page[-1]}")).json
        assert again and not set(again) & set(page)

    run(place, 7, body)


def test_a_page_goes_on_after_a_name_that_is_gone(place: Place, buckets: int) -> None:
    async def body(admin: Admin, store: CountingStore) -> None:
        first, second = (await read_pages(admin, 60))[:2]
        tree = TopicTree(admin.service.store, admin.service.resources.namespaces)
        await (await tree.records(parse_topic(first[-1]))).remove()
        answer = await admin.get(f"{TOPICS}?limit=60&after={first[-1]}")
        assert answer.json == second
        local = await admin.get(f"{TOPICS}?limit=60&after={first[-1].rpartition('/')[2]}")
        assert local.json == second

    run(place, buckets, body)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "limit is from 1 to"),
        ("limit=-1", "limit is from 1 to"),
        ("limit=100001", "limit is from 1 to"),
        ("limit=many", "limit is a whole number"),
        ("format=xml", "format is one of json, ndjson"),
        ("after=persistent://public/other/a", "after is not the name of a topic"),
        ("after=non-persistent://public/many/a", "after is not the name of a topic"),
        ("limit=0&format=ndjson", "limit is from 1 to"),
    ],
)
def test_what_cannot_be_listed_is_refused_in_words(query: str, words: str) -> None:
    async def body() -> None:
        async with admin_of_new_broker() as admin:
            assert (await admin.put(POLICIES)).status == 204
            reply = await admin.get(f"{TOPICS}?{query}")
            assert reply.status == 400
            assert words in reply.reason
            for suffix in ("?format=ndjson", "?limit=3", "/count"):
                missing = await admin.get(f"{V2}/namespaces/public/nope/topics{suffix}")
                assert missing.status == 404
                assert missing.reason == "Namespace does not exist"
            empty = await admin.get(f"{TOPICS}?format=ndjson")
            assert (empty.status, empty.body) == (200, b"")

    asyncio.run(body())


def test_pages_go_on_from_one_domain_to_the_next() -> None:
    async def body() -> None:
        async with admin_of_new_broker() as admin:
            assert (await admin.put(POLICIES, {"numberOfTopicBuckets": 3})).status == 204
            for topic in ("persistent/a", "persistent/b", "non-persistent/c", "non-persistent/d"):
                domain, _, local = topic.partition("/")
                assert (await admin.put(f"{V2}/{domain}/{NAMESPACE}/{local}")).status == 204
            everything = f"{POLICIES}/topics?mode=ALL&limit=3"
            first = (await admin.get(everything)).json
            assert sorted(name.partition(":")[0] for name in first) == [
                "non-persistent",
                "persistent",
                "persistent",
            ]
            rest = (await admin.get(f"{everything}&after={first[-1]}")).json
            assert rest == [f"non-persistent://{NAMESPACE}/d"]
            await admin.put(f"{V2}/scalable/{NAMESPACE}/s1")
            await admin.put(f"{V2}/scalable/{NAMESPACE}/s2")
            scalable = f"{POLICIES}/topics?mode=SCALABLE&limit=1"
            assert (await admin.get(scalable)).json == [f"topic://{NAMESPACE}/s1"]
            second = (await admin.get(f"{scalable}&after=topic://{NAMESPACE}/s1")).json
            assert second == [f"topic://{NAMESPACE}/s2"]

    asyncio.run(body())
