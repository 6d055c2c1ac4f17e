"""A policy is one row: all that is derived from rows finds a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from magnetar.admin.application import Application
from magnetar.admin.bind import make_routes
from magnetar.admin.openapi import describe
from magnetar.admin.route import Route
from magnetar.broker.administration.policy import policy_functions
from magnetar.cli.command import Verb, build_parser
from magnetar.cli.completion import complete_rows
from magnetar.cli.policy import policy_verbs
from magnetar.errors import PreconditionFailed
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.operation.policy import (
    AnyPolicy,
    At,
    Context,
    Level,
    Option,
    Policy,
    policies_by_name,
)
from magnetar.operation.policy_operation import policy_table
from magnetar.operation.policy_table import OWN_RATE, POLICIES
from magnetar.operation.row import Kind
from magnetar.rules.policy import plan_namespace_level
from tests.unit.admin.assembly import V2, Admin, run
from tools.generate_reference import write_policies


def check_shadows(names: Sequence[str], context: Context) -> None:
    if len(names) > 2:
        raise PreconditionFailed(f"{context.name} of a {context.level}: at most 2")


# Fields that the records have and no policy of ours uses.
NEW: AnyPolicy = Policy(
    "shadow-topics",
    "topics that copy this one",
    At("shadowTopics"),
    At("latency_stats_sample_rate", "sampleRate", "sample-rate", "how many", by_cluster=True),
    check=check_shadows,
    options=(Option("-t --topics", Kind.NAMES, help="their names"),),
    aliases=("shadows",),
)
ROWS: tuple[AnyPolicy, ...] = (*POLICIES, NEW)
TOPIC = f"{V2}/persistent/public/default/t"
NAMESPACE = f"{V2}/namespaces/public/default"


def new_routes() -> list[Route]:
    operations = [row for level in Level for row in policy_table(level, ROWS).rows]
    return [*make_routes(operations, policy_functions(ROWS))]


def test_a_new_row_is_read_set_checked_and_removed_over_rest() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        admin.application = Application(admin.api, new_routes())
        path = f"{TOPIC}/shadowTopics"
        assert (await admin.get(path)).status == 204
        assert (await admin.post(path, ["a", "b"])).status == 204
        assert (await admin.get(path)).json == ["a", "b"]
        assert (await admin.get(f"{path}?applied=true")).json == ["a", "b"]
        assert (await admin.get(f"{path}?isGlobal=true")).status == 204
        refused = await admin.post(path, ["a", "b", "c"])
        assert (refused.status, refused.reason) == (412, "shadowTopics of a topic: at most 2")
        unfit = await admin.post(path, {"a": 1})
        assert unfit.status == 412 and "shadowTopics" in unfit.reason
        assert (await admin.delete(path)).status == 204
        assert (await admin.get(path)).status == 204
        assert (await admin.get(f"{NAMESPACE}/sampleRate")).status == 204

    run(body)


def test_a_new_row_is_described() -> None:
    paths = describe(new_routes(), version="1")["paths"]
    described = paths[f"{V2}/persistent/{{tenant}}/{{namespace}}/{{topic}}/shadowTopics"]
    assert set(described) == {"get", "post", "delete"}
    assert described["post"]["x-permission"] == "topic policy"
    schema = described["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"type": "array", "items": {"type": "string"}}
    below = paths[f"{V2}/namespaces/{{tenant}}/{{namespace}}/sampleRate"]
    assert (
        below["post"]["requestBody"]["content"]["application/json"]["schema"]["type"] == "integer"
    )


def test_a_new_row_is_known_to_clients() -> None:
    assert policies_by_name(ROWS, Level.TOPIC)["shadow-topics"].path == "shadowTopics"
    assert policies_by_name(ROWS, Level.NAMESPACE)["sample-rate"].path == "sampleRate"


class Recorder:
    """Stands for the client: notes what a verb calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.topic_policies = self

    def set(self, *given: Any, **named: Any) -> None:
        self.calls.append((given, named))


def new_verbs() -> list[Verb]:
    verbs = policy_verbs(Level.TOPIC, ROWS)
    return [verb for verb in verbs if verb.name.endswith("-shadow-topics")]


def test_a_new_row_has_verbs_with_help_and_aliases() -> None:
    verbs = new_verbs()
    assert [verb.name.partition("-")[0] for verb in verbs] == ["get", "set", "remove"]
    assert [verb.aliases for verb in verbs][1] == ("set-shadows",)
    parser = build_parser("set-shadow-topics", verbs[1])
    help = parser.format_help()
    assert "topics that copy this one" in help and "their names" in help
    client = Recorder()
    verbs[1].run(client, parser.parse_args(["x", "-t", "a,b"]))
    assert client.calls == [(("x", "shadow-topics", ["a", "b"]), {"is_global": False})]


def test_a_new_row_is_completed() -> None:
    cases = dict(complete_rows("admin/topics", new_verbs(), []))
    assert "set-shadow-topics" in cases["admin/topics"]
    assert "--topics" in cases["admin/topics/set-shadow-topics"]


def test_a_new_row_stands_in_the_reference() -> None:
    (row,) = (line for line in "".join(write_policies(ROWS)).splitlines() if "shadowTopics" in line)
    assert "`sample-rate` (sampleRate)" in row and "topics that copy this one" in row


@pytest.mark.parametrize("policy", [*POLICIES, OWN_RATE], ids=lambda policy: policy.name)
def test_every_field_that_a_row_names_is_one(policy: AnyPolicy) -> None:
    for level, record in ((Level.TOPIC, TopicPolicies), (Level.NAMESPACE, Policies)):
        if (at := policy.at(level)) is not None:
            named = {
                at.field,
                *([at.older] if at.older else ()),
                *(field for _, field in at.spread),
            }
            assert named <= set(record.__struct_fields__)


def test_every_name_and_path_is_that_of_one_policy() -> None:
    for level in Level:
        levels = [at for policy in POLICIES if (at := policy.at(level)) is not None]
        for values in ([at.name for at in levels], [at.path for at in levels]):
            assert len(set(values)) == len(values)


def test_what_a_namespace_sets_is_what_its_topics_have() -> None:
    """Policies of both levels whose namespace field holds one value of the topic's type."""
    level = plan_namespace_level(Policies(max_producers_per_topic=3), cluster="c")
    assert level == TopicPolicies(
        maxProducerPerTopic=3, replicationClusters=(), schemaCompatibilityStrategy=None
    )
