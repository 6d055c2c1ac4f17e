from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from magnetar.client.admin import AdminClient
from magnetar.client.admin.policy import load_policies
from magnetar.client.error import (
    AdminConflict,
    AdminNotFound,
    AdminServerFailed,
    AdminUnreachable,
    ConfigurationError,
)
from magnetar.client.message_id import EARLIEST_ID, MessageId
from tests.unit.client.admin.web import Answer, scripted_web

Call = Callable[[AdminClient], object]


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (lambda a: a.clusters.delete("c"), "DELETE", "/admin/v2/clusters/c", ""),
        (
            lambda a: a.clusters.create("c", {"serviceUrl": "u"}),
            "PUT",
            "/admin/v2/clusters/c",
            {"serviceUrl": "u"},
        ),
        (
            lambda a: a.tenants.create("t", admin_roles=["r"], allowed_clusters=["c"]),
            "PUT",
            "/admin/v2/tenants/t",
            {"adminRoles": ["r"], "allowedClusters": ["c"]},
        ),
        (
            lambda a: a.namespaces.create("t/n", bundles=4, clusters=["c"]),
            "PUT",
            "/admin/v2/namespaces/t/n",
            {"bundles": {"numBundles": 4}, "replication_clusters": ["c"]},
        ),
        (
            lambda a: a.namespaces.grant("t/n", "role/one", ["produce"]),
            "POST",
            "/admin/v2/namespaces/t/n/permissions/role%2Fone",
            ["produce"],
        ),
        (
            lambda a: a.namespaces.clear_backlog("t/n", subscription="s", bundle="0x0_0x1"),
            "POST",
            "/admin/v2/namespaces/t/n/0x0_0x1/clearBacklog/s",
            "",
        ),
        (
            lambda a: a.topics.create("a b"),
            "PUT",
            "/admin/v2/persistent/public/default/a%20b",
            {},
        ),
        (
            lambda a: a.topics.delete("non-persistent://t/n/x", force=True),
            "DELETE",
            "/admin/v2/non-persistent/t/n/x?force=true&deleteSchema=true",
            "",
        ),
        (
            lambda a: a.topics.create_partitioned("t/n/x", 3),
            "PUT",
            "/admin/v2/persistent/t/n/x/partitions",
            3,
        ),
        (
            lambda a: a.subscriptions.delete("t/n/x", "a/b c+d"),
            "DELETE",
            "/admin/v2/persistent/t/n/x/subscription/a%2Fb%20c%2Bd?force=false",
            "",
        ),
        (
            lambda a: a.subscriptions.create("t/n/x", "s", position=EARLIEST_ID),
            "PUT",
            "/admin/v2/persistent/t/n/x/subscription/s?replicated=false",
            {
                "ledgerId": -1,
                "entryId": -1,
                "partitionIndex": -1,
                "batchIndex": -1,
                "excluded": False,
                "properties": {},
            },
        ),
        (
            lambda a: a.topic_policies.set("t/n/x", "message-ttl", 60, is_global=True),
            "POST",
            "/admin/v2/persistent/t/n/x/messageTTL?messageTTL=60&isGlobal=true",
            "",
        ),
        (
            lambda a: a.topic_policies.set("t/n/x", "schema-compatibility-strategy", "FULL"),
            "PUT",
            "/admin/v2/persistent/t/n/x/schemaCompatibilityStrategy?isGlobal=false",
            "FULL",
        ),
        (
            lambda a: a.namespaces.remove_policy("t/n", "deduplication-snapshot-interval"),
            "POST",
            "/admin/v2/namespaces/t/n/deduplicationSnapshotInterval",
            None,
        ),
        (
            lambda a: a.namespaces.remove_policy("t/n", "offload-policies"),
            "DELETE",
            "/admin/v2/namespaces/t/n/removeOffloadPolicies",
            "",
        ),
        (
            lambda a: a.brokers.set_dynamic("k", "a/b"),
            "POST",
            "/admin/v2/brokers/configuration/k/a%2Fb",
            "",
        ),
    ],
)
def test_a_call_becomes_its_request(call: Call, method: str, path: str, body: object) -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        call(admin)
        [asked] = web.asked
        assert (asked.method, asked.path) == (method, path)
        assert (json.loads(asked.body) if asked.body else "") == body


def test_properties_of_a_partitioned_topic_have_their_own_media_type() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        admin.topics.create_partitioned("x", 2, properties={"a": "b"})
        [asked] = web.asked
        assert asked.content_type == "application/vnd.partitioned-topic-metadata+json"
        assert json.loads(asked.body) == {"partitions": 2, "properties": {"a": "b"}}


def test_both_domains_are_listed_unless_one_is_named() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '["p"]'), Answer(200, '["n"]'), Answer(200, '["q"]')]
        assert admin.topics.list("t/n") == ["p", "n"]
        assert admin.topics.list("t/n", domain="persistent") == ["q"]


def test_ids_are_read_from_answers() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [
            Answer(200, '{"ledgerId":3,"entryId":4,"partitionIndex":-1}'),
            Answer(200, '{"ledgerId":3,"entryId":4,"partitionIndex":1,"batchIndex":2}'),
        ]
        assert admin.topics.terminate("x") == MessageId(3, 4)
        assert admin.topics.last_message_id("x") == MessageId(3, 4, 1, 2)


def test_an_entry_comes_with_what_its_headers_say() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        headers = (("X-Pulsar-Message-ID", "3:4"), ("X-Pulsar-producer-name", "p"))
        web.answers = [Answer(200, "payload", headers)]
        entry = admin.subscriptions.peek("x", "s", 1)
        assert (entry.id, entry.data, entry.headers) == ("3:4", b"payload", {"producer-name": "p"})


def test_schema_versions_are_read_bare_or_wrapped() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '{"version":{"version":7}}'), Answer(200, '{"version":8}')]
        assert admin.schemas.upload("x", type="JSON", definition="{}") == 7
        assert admin.schemas.find_version("x", type="JSON", definition="{}") == 8


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (Answer(404, '{"reason":"no such topic"}'), AdminNotFound, "no such topic"),
        (Answer(409, "plain words"), AdminConflict, "plain words"),
        (Answer(503, "<html></html>"), AdminServerFailed, "503 Service Unavailable"),
        (Answer(500, ""), AdminServerFailed, "500 Internal Server Error"),
    ],
)
def test_a_refusal_carries_status_and_reason(
    answer: Answer, kind: type[Exception], reason: str
) -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [answer]
        with pytest.raises(kind, match=reason) as caught:
            admin.topics.stats("x")
        assert caught.value.status == answer.status  # type: ignore[attr-defined]


def test_what_the_broker_notes_is_a_warning_or_stands_with_the_refusal() -> None:
    note = (("X-Magnetar-Note", "Send SIGTERM."),)
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, "", note), Answer(501, '{"reason":"not supported"}', note)]
        with pytest.warns(UserWarning, match=r"^Send SIGTERM\.$"):
            admin.brokers.set_dynamic("k", "v")
        with pytest.raises(AdminServerFailed, match="not supported") as caught:
            admin.brokers.shutdown()
        assert caught.value.__notes__ == ["Send SIGTERM."]


def test_a_redirect_is_followed_with_method_and_body() -> None:
    with scripted_web() as first, scripted_web() as second, AdminClient(first.url) as admin:
        target = f"{second.url}/admin/v2/persistent/t/n/x/partitions?authoritative=true"
        first.answers = [Answer(307, "", (("Location", target),))]
        admin.topics.create_partitioned("t/n/x", 3)
        [asked] = second.asked
        assert (asked.method, asked.body) == ("PUT", "3")
        assert asked.path.endswith("authoritative=true")


def test_a_dropped_idle_connection_is_opened_again() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, "[]", hangs_up=True), Answer(200, '["t"]')]
        assert admin.tenants.list() == []
        assert admin.tenants.list() == ["t"]


def test_nobody_at_the_url_is_one_sentence_that_names_it() -> None:
    with (
        AdminClient("http://127.0.0.1:1") as admin,
        pytest.raises(AdminUnreachable, match=r"http://127\.0\.0\.1:1: connection refused"),
    ):
        admin.tenants.list()


def test_a_redirect_to_where_nobody_is_names_that_address() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(307, "", (("Location", "http://127.0.0.1:1/admin/v2/tenants"),))]
        sentence = rf"at http://127\.0\.0\.1:1: connection refused; {web.url} redirected to it"
        with pytest.raises(AdminUnreachable, match=sentence) as error:
            admin.tenants.list()
        assert error.value.url == "http://127.0.0.1:1"


def test_a_token_is_sent_and_an_unset_value_is_none() -> None:
    with scripted_web() as web, AdminClient(web.url, token="secret") as admin:
        assert admin.namespaces.policy("t/n", "retention") is None
        assert web.asked[0].authorization == "Bearer secret"


def test_what_cannot_be_asked_is_refused_before_anything_is_sent() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        with pytest.raises(ConfigurationError):
            admin.topics.stats("a/b")
        with pytest.raises(ConfigurationError, match="retention"):
            admin.namespaces.policy("t/n", "retenton")
        with pytest.raises(ConfigurationError, match="not removed"):
            admin.namespaces.remove_policy("t/n", "encryption-required")
        assert not web.asked
    with pytest.raises(ConfigurationError):
        AdminClient("pulsar://h:1")


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_no_two_policies_of_a_table_share_a_path(level: str) -> None:
    paths = [policy.path for policy in load_policies(level).values()]
    assert len(set(paths)) == len(paths)
