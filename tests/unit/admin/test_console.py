"""What the console's pages ask of the broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import pytest

from magnetar.broker.administration import topic_table
from magnetar.client.admin import AdminClient
from magnetar.model.answer.broker import BrokersOverview
from magnetar.model.answer.namespace import PolicyOrigin
from magnetar.model.answer.topic import TopicTable
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.operation.table import all_operations
from magnetar.wire.batch import encode_batch
from magnetar.wire.command import SingleMessageMetadata
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker
from tests.unit.rules.test_schema import native

API = "/console/api"
ORDERS = f"{API}/topic/public/default/orders"
PLAIN = "persistent://public/default/plain"


def run(body: Callable[[Admin], Awaitable[None]], **settings: str) -> None:
    async def whole() -> None:
        async with admin_of_new_broker(**settings) as admin:
            await body(admin)

    asyncio.run(whole())


async def make_plain(admin: Admin, count: int = 0) -> None:
    assert (await admin.put(f"{V2}/persistent/public/default/plain")).status == 204
    for number in range(count):
        await admin.publish(PLAIN, b"%d" % number, partition_key=f"k{number}")


def test_the_page_comes_with_a_policy_that_lets_nothing_else_in() -> None:
    async def body(admin: Admin) -> None:
        page = await admin.get("/console/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert b"<script>" not in page.body and b"style=" not in page.body
        for name in ("app.js", "app.css", "icon.svg"):
            found = await admin.get(f"/console/{name}")
            assert found.status == 200 and found.body
            again = Admin(
                admin.application,
                admin.service,
                admin.api,
                headers={"if-none-match": found.headers["etag"]},
            )
            assert (await again.get(f"/console/{name}")).status == 304
        assert (await admin.get("/console/..%2fconsole.py")).status == 404

    run(body)


def test_the_session_says_who_asks() -> None:
    async def body(admin: Admin) -> None:
        session = (await admin.get(f"{API}/session")).json
        assert session["isSuper"] and not session["isAuthenticationEnabled"]
        assert session["brokerId"] == "broker.test:8080"

    run(body)


def test_rights_are_named_by_operation_and_follow_the_target() -> None:
    async def body(admin: Admin) -> None:
        of_broker = (await admin.get(f"{API}/rights")).json
        assert "tenants.create" in of_broker and "scalable_topics.split" in of_broker
        assert "topics.stats" not in of_broker  # no topic is named
        of_topic = (await admin.get(f"{API}/rights?topic={PLAIN}")).json
        assert "topics.stats" in of_topic and "topic_policies.set_retention" in of_topic

    run(body)


INTERNAL = [each for each in all_operations() if each.is_internal]


def test_what_the_pages_alone_ask_is_marked_and_no_method_of_the_admin_client() -> None:
    async def body(admin: Admin) -> None:
        described = (await admin.get("/openapi.json")).json["paths"]
        marked = {
            path
            for path, methods in described.items()
            for each in methods.values()
            if each.get("x-internal")
        }
        pages = {path for path in described if path.startswith(f"{API}/")}
        assert len(pages) > 10 and pages <= marked
        rights = (await admin.get(f"{API}/rights?topic={PLAIN}")).json
        assert not {each.name for each in INTERNAL} & set(rights)

    run(body)
    with AdminClient("http://nowhere") as client:
        offered = [each.name for each in INTERNAL if hasattr(client, each.noun)]
    assert not offered


def test_what_is_followed_has_the_keys_and_values_of_its_type() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin, 1)
        kinds = {
            "overview": BrokersOverview,
            "topics": TopicTable,
            "persistent/public/default/plain/policies": list[PolicyOrigin],
        }
        for path, kind in kinds.items():
            found = (await admin.get(f"{API}/{path}")).json
            assert msgspec.convert(found, kind) == found

    run(body)


def test_topics_are_filtered_sorted_and_cut_into_windows() -> None:
    async def body(admin: Admin) -> None:
        for name in ("a", "b", "c"):
            await admin.put(f"{V2}/persistent/public/default/{name}")
        await admin.put(f"{V2}/persistent/public/default/many/partitions", 3)
        await admin.put(f"{V2}/scalable/public/default/river?numInitialSegments=2")
        await admin.publish("persistent://public/default/b", b"x" * 500)
        found = (await admin.get(f"{API}/topics")).json
        kinds = {row["name"].rpartition("/")[2]: row["kind"] for row in found["rows"]}
        assert kinds == {
            "a": "regular",
            "b": "regular",
            "c": "regular",
            "many": "partitioned",
            "river": "scalable",
        }
        names = [
            row["name"].rpartition("/")[2]
            for row in (await admin.get(f"{API}/topics?offset=1&limit=2")).json["rows"]
        ]
        assert names == ["b", "c"]
        largest = (await admin.get(f"{API}/topics?sort=storageSize&descending=true")).json
        assert largest["rows"][0]["name"].endswith("/b")
        scalable = (await admin.get(f"{API}/topics?kind=scalable")).json
        assert (scalable["total"], scalable["rows"][0]["parts"]) == (1, 2)
        assert (await admin.get(f"{API}/topics?text=RIV")).json["total"] == 1
        assert (await admin.get("/admin/v2/brokers/health")).status == 200
        names = [row["name"] for row in (await admin.get(f"{API}/topics")).json["rows"]]
        assert len(names) == 5 and not any("healthcheck" in name for name in names)
        assert (await admin.get(f"{API}/topics?namespace=public/other")).json["total"] == 0
        assert (await admin.get(f"{API}/topics?sort=nothing")).status == 400
        assert (await admin.get(f"{API}/topics?limit=100000")).status == 400

    run(body)


def test_the_lag_counts_messages_of_batches_also_after_the_topic_was_loaded_again() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        path = f"{V2}/persistent/public/default/plain"
        await admin.put(f"{path}/subscription/s", "earliest")
        await admin.publish(PLAIN, b"one")
        row = (await admin.get(f"{API}/topics?text=plain")).json["rows"][0]
        assert (row["lag"], row["isLagExact"]) == (1, True)
        pieces = [(SingleMessageMetadata(), b"x") for _ in range(9)]
        await admin.publish(PLAIN, encode_batch(pieces), num_messages_in_batch=9)
        await admin.put(f"{path}/unload")
        stats = (await admin.get(f"{path}/stats")).json["subscriptions"]["s"]
        assert (stats["msgBacklog"], stats["lagMessages"]) == (2, 10)
        assert not stats["isLagEstimated"]
        row = (await admin.get(f"{API}/topics?text=plain")).json["rows"][0]
        assert (row["lag"], row["isLagExact"]) == (10, True)
        preview = f"{API}/persistent/public/default/plain/preview/cursor"
        skipped = (await admin.get(f"{preview}?subscription=s&skip=1")).json
        assert skipped == {"again": 0, "passed": 1, "backlog": 10, "isExact": True}

    run(body)


def test_a_topic_that_is_not_loaded_is_listed_without_numbers() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        await admin.put(f"{V2}/persistent/public/default/plain/unload")
        row = (await admin.get(f"{API}/topics")).json["rows"][0]
        assert (row["name"], row["isLoaded"]) == (PLAIN, False)

    run(body)


def test_the_topics_of_the_broker_itself_are_listed_when_asked_for() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        await admin.put(f"{V2}/persistent/pulsar/system/kept")
        await admin.put(f"{V2}/persistent/public/default/my__own")
        names = [row["name"] for row in (await admin.get(f"{API}/topics")).json["rows"]]
        assert names == ["persistent://public/default/my__own", PLAIN]
        assert (await admin.get(f"{API}/topics?system=true&text=kept")).json["total"] == 1

    run(body)


def test_the_names_are_read_again_when_there_are_more() -> None:
    async def body(admin: Admin) -> None:
        names = topic_table.Names(admin.service)
        visible = (await _visibility(admin)).namespaces
        assert visible == frozenset()
        for count in (1, 2):
            await admin.put(f"{V2}/persistent/public/default/t{count}")
            assert len(await names.load(await _visibility(admin))) == count
        await admin.delete(f"{V2}/persistent/public/default/t1")
        assert len(await names.load(await _visibility(admin))) == 1

    run(body)


async def _visibility(admin: Admin) -> Any:
    from magnetar.broker.administration.visibility import find_visibility
    from magnetar.model.caller import ANONYMOUS

    return await find_visibility(admin.service, ANONYMOUS)


def test_messages_are_browsed_by_end_position_time_and_key() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin, 6)
        path = f"{API}/persistent/public/default/plain/messages"
        last = (await admin.get(f"{path}?count=2")).json
        assert [each["value"] for each in last["messages"]] == ["4", "5"] and last["isEnd"]
        first = (await admin.get(f"{path}?count=2&from=earliest")).json
        assert [each["value"] for each in first["messages"]] == ["0", "1"] and not first["isEnd"]
        following = (await admin.get(f"{path}?count=2&from={first['next']}")).json
        assert [each["value"] for each in following["messages"]] == ["2", "3"]
        by_key = (await admin.get(f"{path}?from=earliest&key=k3")).json
        assert [each["value"] for each in by_key["messages"]] == ["3"]
        by_time = (await admin.get(f"{path}?from=4102444800000")).json
        assert by_time["messages"] == []
        assert (await admin.get(f"{path}?from=yesterday")).status == 400
        assert (await admin.get(f"{path}?part=persistent://public/default/other")).status == 404

    run(body)


DEFINITION = json.dumps(
    {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": "name", "type": "string"}, {"name": "amount", "type": "int"}],
    }
)


@pytest.mark.parametrize(
    ("kind", "definition", "value"),
    [
        ("JSON", DEFINITION, {"name": "ada", "amount": 3}),
        ("AVRO", DEFINITION, {"name": "ada", "amount": 3}),
        ("STRING", "", "tea"),
        ("INT32", "", 7),
        ("DOUBLE", "", 2.5),
        ("BOOLEAN", "", True),
    ],
)
def test_what_is_published_by_hand_is_read_by_the_schema(
    kind: str, definition: str, value: object
) -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        schema = {"type": kind, "schema": definition, "properties": {}}
        assert (await admin.post(f"{V2}/schemas/public/default/plain/schema", schema)).status == 200
        path = f"{API}/persistent/public/default/plain/messages"
        message = {"value": value, "key": "k", "properties": {"by": "hand"}}
        assert (await admin.post(path, message)).status == 200
        (found,) = (await admin.get(path)).json["messages"]
        assert (found["value"], found["key"], found["schema"]) == (value, "k", kind)
        assert found["properties"] == {"by": "hand"}

    run(body)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        schema = {"type": "AVRO", "schema": DEFINITION, "properties": {}}
        await admin.post(f"{V2}/schemas/public/default/plain/schema", schema)
        path = f"{API}/persistent/public/default/plain/messages"
        refused = await admin.post(path, {"value": {"name": 3}})
        assert refused.status == 400 and "does not fit AVRO" in refused.reason
        assert (await admin.get(path)).json["entries"] == 0

    run(body)


def test_a_message_that_its_schema_cannot_read_is_shown_with_the_reason() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        schema = SchemaData(SchemaType.INT64)
        strategy = (await admin.service.policies.in_force.find(_name(PLAIN))).schema_compatibility
        version = await admin.service.schemas.put_if_absent(_name(PLAIN), schema, strategy)
        await admin.publish(PLAIN, b"abc", schema_version=version.to_bytes(8, "big"))
        path = f"{API}/persistent/public/default/plain/messages"
        (found,) = (await admin.get(path)).json["messages"]
        assert found["value"] == "abc" and "no INT64" in found["problem"]

    run(body)


def _name(text: str) -> Any:
    from magnetar.model.name import parse_topic

    return parse_topic(text)


def test_a_protobuf_message_is_shown_by_its_fields() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        strategy = (await admin.service.policies.in_force.find(_name(PLAIN))).schema_compatibility
        version = await admin.service.schemas.put_if_absent(_name(PLAIN), native(), strategy)
        await admin.publish(PLAIN, b"\x08\x07", schema_version=version.to_bytes(8, "big"))
        path = f"{API}/persistent/public/default/plain/messages"
        (found,) = (await admin.get(path)).json["messages"]
        assert (found["value"], found["schema"]) == ({"id": 7}, "PROTOBUF_NATIVE")

    run(body)


def test_each_message_of_a_batch_and_each_chunk_is_shown_for_itself() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        pieces = [(SingleMessageMetadata(partition_key=key), key.encode()) for key in "ab"]
        await admin.publish(PLAIN, encode_batch(pieces), num_messages_in_batch=2)
        await admin.publish(PLAIN, b"half", num_chunks_from_msg=2, chunk_id=1, uuid="u")
        path = f"{API}/persistent/public/default/plain/messages"
        first, second, chunk = (await admin.get(path)).json["messages"]
        assert [each["batchIndex"] for each in (first, second)] == [0, 1]
        assert [(each["key"], each["value"]) for each in (first, second)] == [
            ("a", "a"),
            ("b", "b"),
        ]
        assert first["batchSize"] == 2 and first["position"] == second["position"]
        assert (chunk["chunk"], chunk["value"]) == ("2 of 2", "half")

    run(body)


def test_a_message_of_a_scalable_topic_goes_where_its_key_belongs() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/scalable/public/default/orders?numInitialSegments=4")
        for key in ("a", "b", "c", "d", "e"):
            stored = (await admin.post(f"{ORDERS}/messages", {"value": key, "key": key})).json
            for part in (stored["topic"], ""):  # named, or found by the key
                found = (await admin.get(f"{ORDERS}/messages?part={part}&key={key}")).json
                assert [each["value"] for each in found["messages"]] == [key]
                assert found["part"] == stored["topic"]

    run(body)


def test_a_sealed_topic_takes_no_message_by_hand() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        await admin.post(f"{V2}/persistent/public/default/plain/terminate")
        path = f"{API}/persistent/public/default/plain/messages"
        refused = await admin.post(path, {"value": "late"})
        assert refused.status >= 400 and "terminated" in refused.reason

    run(body)


def test_a_change_of_the_layout_is_told_before_it_is_made() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/scalable/public/default/orders?numInitialSegments=2")
        split = (await admin.get(f"{ORDERS}/preview?segment=0&at=4096")).json
        assert [each["hashRange"] for each in split["made"]] == ["0000-0fff", "1000-7fff"]
        merge = (await admin.get(f"{ORDERS}/preview?left=0&right=1")).json
        assert (merge["before"], merge["after"]) == (2, 1)
        scale = (await admin.get(f"{ORDERS}/preview?count=8")).json
        assert (scale["after"], scale["steps"]) == (8, 6)
        same = (await admin.get(f"{ORDERS}/preview?count=2")).json
        assert same["made"] == []
        assert (await admin.get(f"{ORDERS}/preview?segment=9")).status >= 400
        assert (await admin.get(f"{ORDERS}/preview?count=100000")).status == 400
        assert (await admin.get(f"{ORDERS}/preview")).status == 400
        history = (await admin.get(f"{V2}/scalable/public/default/orders/history")).json
        assert history == []  # nothing was done

    run(body)


def test_what_a_cursor_would_pass_over_or_get_again_is_counted() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        root = f"{V2}/persistent/public/default/plain/subscription/s"
        await admin.put(root, "earliest")
        for number in range(6):
            await admin.publish(PLAIN, b"%d" % number)
        await admin.post(f"{root}/skip/4")
        path = f"{API}/persistent/public/default/plain/preview/cursor?subscription="
        back = (await admin.get(f"{path}s&time=0")).json
        assert (back["again"], back["passed"], back["backlog"]) == (4, 0, 2)
        ahead = (await admin.get(f"{path}s")).json
        assert (ahead["again"], ahead["passed"]) == (0, 2)
        skipped = (await admin.get(f"{path}s&skip=1")).json
        assert skipped["passed"] == 1
        assert (await admin.get(f"{path}nobody")).status == 404

    run(body)


def test_every_policy_says_where_its_value_comes_from() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        path = f"{API}/persistent/public/default/plain/policies"

        async def ttl() -> tuple[object, str]:
            rows = (await admin.get(path)).json
            (row,) = (row for row in rows if row["name"] == "message-ttl")
            return row.get("value"), row["source"]

        assert await ttl() == (0, "broker")
        await admin.post(f"{V2}/namespaces/public/default/messageTTL", 60)
        assert await ttl() == (60, "namespace")
        await admin.post(f"{V2}/persistent/public/default/plain/messageTTL?messageTTL=5")
        assert await ttl() == (5, "topic")
        await admin.delete(f"{V2}/persistent/public/default/plain/messageTTL")
        assert await ttl() == (60, "namespace")

    run(body)


def test_secrets_of_the_configuration_are_not_told() -> None:
    async def body(admin: Admin) -> None:
        rows = {row["name"]: row for row in (await admin.get(f"{API}/configuration")).json}
        assert rows["webConsoleEnabled"]["value"] == "true"
        assert "data:;base64" not in json.dumps(rows)

    run(body, tokenSecretKey="data:;base64,a2V5")


# Live
class Stream:
    """Events of a page that is open, taken one by one."""

    def __init__(self, admin: Admin, path: str) -> None:
        self._admin = admin
        self._path = path
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._is_gone = False
        self._task: asyncio.Task[None] | None = None
        self.status = 0

    async def __aenter__(self) -> Stream:
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        self._is_gone = True
        assert self._task is not None
        await asyncio.wait_for(self._task, 20)

    async def next(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self._events.get(), 20)

    async def _run(self) -> None:
        raw_path, _, query = self._path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "raw_path": raw_path.encode(),
            "path": raw_path,
            "query_string": query.encode(),
            "headers": [(b"accept", b"text/event-stream")],
            "extensions": {"is_gone": lambda: self._is_gone},
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                return
            for event in message["body"].decode().split("\n\n"):
                if event.startswith("event: "):
                    kind, data = event.split("\n", 1)
                    value = json.loads(data.removeprefix("data: "))
                    self._events.put_nowait((kind.removeprefix("event: "), value))

        await self._admin.application(scope, receive, send)


def test_a_change_of_the_layout_is_sent_to_the_page_that_shows_it() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/scalable/public/default/orders")
        async with Stream(admin, ORDERS) as stream:
            kind, state = await stream.next()
            assert (kind, state["stats"]["epoch"]) == ("state", 0)
            await admin.post(f"{V2}/scalable/public/default/orders/split/0")
            while state["stats"]["epoch"] == 0:
                _, state = await stream.next()
            assert state["stats"]["activeSegments"] == 2

    run(body)


def test_a_stream_ends_with_its_reader_and_with_the_topic() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin)
        async with Stream(admin, f"{API}/persistent/public/default/plain") as stream:
            await stream.next()
            await admin.delete(f"{V2}/persistent/public/default/plain")
            kind, told = await stream.next()
            while kind == "state":
                kind, told = await stream.next()
            assert kind == "refused" and "not found" in told["reason"]
        async with Stream(admin, f"{API}/overview") as left:
            await left.next()
            await left.leave()  # a stream that went on would not end in time

    run(body)


def test_no_more_than_some_pages_are_open_at_once() -> None:
    async def body(admin: Admin) -> None:
        streams = [Stream(admin, f"{API}/overview") for _ in range(65)]
        for stream in streams[:64]:
            await stream.__aenter__()
            await stream.next()
        async with streams[64] as refused:
            pass  # it ends by itself
        assert refused.status == 429
        for stream in streams[:64]:
            await stream.leave()

    run(body)


def test_every_policy_of_a_namespace_says_where_its_value_comes_from() -> None:
    async def body(admin: Admin) -> None:
        path = f"{API}/namespace/public/default/policies"

        async def ttl() -> tuple[object, str, object]:
            (row,) = (row for row in (await admin.get(path)).json if row["path"] == "messageTTL")
            return row.get("value"), row["source"], row["levels"].get("broker")

        assert await ttl() == (0, "broker", 0)
        await admin.post(f"{V2}/namespaces/public/default/messageTTL", 60)
        assert await ttl() == (60, "namespace", 0)
        assert (await admin.get(f"{API}/namespace/public/nowhere/policies")).status == 404

    run(body)


def test_the_overview_names_the_busiest_topics_but_not_the_brokers_own() -> None:
    async def body(admin: Admin) -> None:
        await make_plain(admin, 1)
        other = "persistent://public/default/other"
        await admin.put(f"{V2}/{other.replace('://', '/')}")
        await admin.publish(other, b"x")
        assert (await admin.get("/admin/v2/brokers/health")).status == 200  # makes one of its own
        shown = (await admin.get(f"{API}/overview")).json
        names = [row["name"] for row in shown["busiest"]]
        assert sorted(names) == [other, PLAIN] and shown["topics"]["parts"] > len(names)

    run(body)
