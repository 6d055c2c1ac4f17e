"""Laws over the whole table of verbs, and what some of them send."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections import Counter
from operator import attrgetter
from pkgutil import iter_modules
from urllib.parse import unquote

import pytest

from magnetar.cli import __path__ as PATH
from magnetar.cli.admin import close_watch, group_names, load_verbs
from magnetar.cli.cluster import VERBS as CLUSTER_VERBS
from magnetar.cli.command import Verb, build_parser
from magnetar.cli.main import main
from magnetar.cli.spark import JOBS
from magnetar.cli.table import ADMIN_ARGUMENTS, COMMANDS
from magnetar.cli.token import VERBS as TOKEN_VERBS
from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.operation.policy_operation import TOPIC_TABLE
from magnetar.operation.table import all_operations
from tests.unit.client.admin.web import Answer, scripted_web

VERBS = [(group, verb) for group in group_names() for verb in load_verbs(group)]


@pytest.mark.parametrize("group", group_names())
def test_a_word_names_one_verb_of_a_group(group: str) -> None:
    words = Counter(word for verb in load_verbs(group) for word in (verb.name, *verb.aliases))
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize(
    ("group", "verb"), VERBS, ids=lambda argument: getattr(argument, "name", argument)
)
def test_every_verb_explains_itself(
    group: str, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = build_parser(f"magnetar admin {group}", verb, ADMIN_ARGUMENTS)
    shown = parser.format_help()
    assert verb.help.split()[0] in shown
    for argument in verb.arguments:
        assert (argument.names[0] if argument.is_option else argument.spelling.upper()) in shown


def test_a_command_is_written_by_hand_or_calls_a_method_of_the_client() -> None:
    modules = (importlib.import_module(f"magnetar.cli.{each.name}") for each in iter_modules(PATH))
    written = {name for module in modules for name in getattr(module, "OWN", {})}
    offered = {each.name for each in all_operations() if each.verbs}
    assert written <= offered, "written for no operation"
    with AdminClient("http://nowhere") as admin:
        for name in offered - written:
            assert callable(attrgetter(name)(admin)), name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = command.name  # type: ignore[attr-defined]
    assert main([name, "--help"]) == 0
    assert "usage: magnetar " + name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "method", "path", "body"),
    [
        (
            "namespaces set-retention t/n -t 2h -s 10M",
            "POST",
            "/admin/v2/namespaces/t/n/retention",
            {"retentionTimeInMinutes": 120, "retentionSizeInMB": 10},
        ),
        (
            "namespaces set-retention t/n --time -1 --size -1",
            "POST",
            "/admin/v2/namespaces/t/n/retention",
            {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
        ),
        (
            "namespaces set-message-ttl t/n -ttl 60",
            "POST",
            "/admin/v2/namespaces/t/n/messageTTL",
            60,
        ),
        (
            "topicPolicies set-message-ttl t/n/x -t 60 -g",
            "POST",
            "/admin/v2/persistent/t/n/x/messageTTL?messageTTL=60&isGlobal=true",
            "",
        ),
        (
            "namespaces set-backlog-quota t/n -l 10G -p producer_exception",
            "POST",
            "/admin/v2/namespaces/t/n/backlogQuota?backlogQuotaType=destination_storage",
            {"policy": "producer_exception", "limitSize": 10 * 2**30},
        ),
        (
            "topics remove-backlog-quota x -t message_age",
            "DELETE",
            "/admin/v2/persistent/public/default/x/backlogQuota"
            "?backlogQuotaType=message_age&isGlobal=false",
            "",
        ),
        (
            "topics set-dispatch-rate x -md 5 -dt 2",
            "POST",
            "/admin/v2/persistent/public/default/x/dispatchRate?isGlobal=false",
            {
                "dispatchThrottlingRateInMsg": 5,
                "dispatchThrottlingRateInByte": -1,
                "ratePeriodInSecond": 2,
                "relativeToPublishRate": False,
            },
        ),
        (
            "namespaces set-schema-compatibility-strategy t/n -c FULL",
            "PUT",
            "/admin/v2/namespaces/t/n/schemaCompatibilityStrategy",
            "FULL",
        ),
        (
            "namespaces set-auto-topic-creation t/n -e -t partitioned -n 3",
            "POST",
            "/admin/v2/namespaces/t/n/autoTopicCreation",
            {
                "allowAutoTopicCreation": True,
                "topicType": "partitioned",
                "defaultNumPartitions": 3,
            },
        ),
        (
            "topics set-inactive-topic-policies x -e -t 1h -m delete_when_no_subscriptions",
            "POST",
            "/admin/v2/persistent/public/default/x/inactiveTopicPolicies?isGlobal=false",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 3600,
                "deleteWhileInactive": True,
            },
        ),
        (
            "topics create-subscription x -s a -m earliest -p k=v",
            "PUT",
            "/admin/v2/persistent/public/default/x/subscription/a?replicated=false",
            {
                "ledgerId": -1,
                "entryId": -1,
                "partitionIndex": -1,
                "batchIndex": -1,
                "excluded": False,
                "properties": {"k": "v"},
            },
        ),
        (
            "subscriptions reset x -s a -m 3:4 -e",
            "POST",
            "/admin/v2/persistent/public/default/x/subscription/a/resetcursor",
            {
                "ledgerId": 3,
                "entryId": 4,
                "partitionIndex": -1,
                "batchIndex": -1,
                "excluded": True,
            },
        ),
        (
            "topics clear-backlog x -s a",
            "POST",
            "/admin/v2/persistent/public/default/x/subscription/a/skip_all",
            "",
        ),
        (
            "topics create-partitioned-topic x -p 4",
            "PUT",
            "/admin/v2/persistent/public/default/x/partitions",
            4,
        ),
        (
            "topics enable-deduplication x",
            "POST",
            "/admin/v2/persistent/public/default/x/deduplicationEnabled?isGlobal=false",
            True,
        ),
        (
            "topicPolicies set-subscription-dispatch-rate x -s a/b -md 5",
            "POST",
            "/admin/v2/persistent/public/default/x/a%2Fb/dispatchRate?isGlobal=false",
            {
                "dispatchThrottlingRateInMsg": 5,
                "dispatchThrottlingRateInByte": -1,
                "ratePeriodInSecond": 1,
                "relativeToPublishRate": False,
            },
        ),
        (
            "topicPolicies remove-subscription-dispatch-rate x --subscription a -g",
            "DELETE",
            "/admin/v2/persistent/public/default/x/a/dispatchRate?isGlobal=true",
            "",
        ),
        ("tenants delete t -f", "DELETE", "/admin/v2/tenants/t?force=true", ""),
        (
            "brokers update-dynamic-config -c k -v 5",
            "POST",
            "/admin/v2/brokers/configuration/k/5",
            "",
        ),
        (
            "topics grant-permission x --role r --actions produce,consume",
            "POST",
            "/admin/v2/persistent/public/default/x/permissions/r",
            ["produce", "consume"],
        ),
        (
            "topics revoke-permission topic://t/n/x --role r",
            "DELETE",
            "/admin/v2/topic/t/n/x/permissions/r",
            "",
        ),
        (
            "namespaces grant-subscription-permission t/n -s audit --roles a,b",
            "POST",
            "/admin/v2/namespaces/t/n/permissions/subscription/audit",
            ["a", "b"],
        ),
        (
            "namespaces revoke-subscription-permission t/n -s audit --role a",
            "DELETE",
            "/admin/v2/namespaces/t/n/permissions/audit/a",
            "",
        ),
    ],
)
def test_a_verb_sends_what_its_flags_say(
    words: str, method: str, path: str, body: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_web() as web:
        assert main(["admin", "--admin-url", web.url, *words.split()]) == 0
        [asked] = web.asked
        assert (asked.method, asked.path) == (method, path)
        assert (json.loads(asked.body) if asked.body else "") == body
    assert capsys.readouterr().out == ""


def _words_of(verb: Verb) -> list[str]:
    """The verb with as little as it takes."""
    words = [verb.name]
    for argument in verb.arguments:
        name = argument.names[-1]
        if not argument.is_option:
            words.append("t/n/x" if name == "topic" else "t/n")
        elif argument.parse is None and name.startswith("--enable"):
            words.append(name)
        elif argument.required:
            words += [name, argument.choices[0] if argument.choices else "1"]
    return words


def test_every_policy_of_a_topic_that_rest_knows_has_its_verbs() -> None:
    verbs = [verb for verb in load_verbs("topicPolicies") if verb.name != "backend"]
    asked = set()
    with scripted_web() as web:
        for verb in verbs:
            for more in [], ["--subscription", "{subscription}"]:
                if more and not any(
                    "--subscription" in argument.names for argument in verb.arguments
                ):
                    continue
                words = ["topicPolicies", *_words_of(verb), *more]
                assert main(["admin", "--admin-url", web.url, *words]) == 0, words
        for each in web.asked:
            path = unquote(each.path.partition("?")[0])
            asked.add((each.method, path.removeprefix("/admin/v2/persistent/t/n/x")))
    root = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
    assert asked == {(route.method, route.path.removeprefix(root)) for route in TOPIC_TABLE.rows}


def test_only_one_policy_is_of_a_subscription() -> None:
    with AdminClient("http://localhost:1") as admin, pytest.raises(ConfigurationError):
        admin.topic_policies.set("t/n/x", "max-producers", 1, subscription="s")


def test_peeking_past_the_end_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_web() as web:
        web.answers = [
            Answer(200, "hello", (("X-Pulsar-Message-ID", "3:0"),)),
            Answer(404, '{"reason": "Message not found"}'),
        ]
        words = ["topics", "peek-messages", "x", "-s", "a", "-n", "5", "-o", "json"]
        assert main(["admin", "--admin-url", web.url, *words]) == 0
    assert json.loads(capsys.readouterr().out) == [{"id": "3:0", "data": "hello"}]


def test_a_getter_of_something_unset_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_web() as web:
        assert main(["admin", "--admin-url", web.url, "topics", "get-retention", "x"]) == 0
    assert capsys.readouterr().out == "not set\n"


def test_all_of_a_cluster_that_does_not_exist_is_not_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with scripted_web() as web:
        web.answers = [Answer(404, '{"reason": "Cluster does not exist: far"}')]
        assert main(["admin", "--admin-url", web.url, "clusters", "delete", "far", "-a"]) == 1
        assert [each.method for each in web.asked] == ["GET"]
    assert capsys.readouterr().err == "magnetar: Cluster does not exist: far\n"


@pytest.mark.parametrize("text", ["nothing", "12", "1:2:3:4:5", "a:b"])
def test_what_is_no_message_id_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "topics", "get-backlog-size", "t/n/x", "-m", text]) == 2
    expected = f"{text!r} is not earliest, latest or a message id such as 12:3"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("looked", "refusal"),
    [
        (("{}", '{"one": {}}'), "far has isolation policies: one"),
        (
            ("{}", "{}", '["t"]', '["t/n"]', '["far", "near"]'),
            "t/n is replicated to far, near",
        ),
    ],
)
def test_nothing_of_a_cluster_goes_while_something_would_refuse_its_end(
    looked: tuple[str, ...], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_web() as web:
        web.answers = [Answer(200, body) for body in looked]
        assert main(["admin", "--admin-url", web.url, "clusters", "delete", "far", "-a"]) == 1
        assert {each.method for each in web.asked} == {"GET"}
    assert capsys.readouterr().err == f"magnetar: {refusal}\n"


def test_all_of_a_cluster_goes_before_the_cluster() -> None:
    looked = ("{}", "{}", '["t"]', '["t/n"]', '["far"]')
    scalable, partitioned = '["topic://t/n/s"]', '["persistent://t/n/p"]'
    read = (*looked, scalable, "", partitioned, "[]", "", '["t/n/x"]', "[]")
    with scripted_web() as web:
        web.answers = [Answer(200, body) for body in read]
        assert main(["admin", "--admin-url", web.url, "clusters", "delete", "far", "-a"]) == 0
        deleted = [each.path.partition("?")[0] for each in web.asked if each.method == "DELETE"]
    assert [path.removeprefix("/admin/v2/") for path in deleted] == [
        "scalable/t/n/s",
        "persistent/t/n/p/partitions",
        "persistent/t/n/x",
        "namespaces/t/n",
        "tenants/t",
        "clusters/far",
    ]


def examples_of(program: str, verb: Verb) -> list[list[str]]:
    """The command lines that the help shows, as a shell cuts them."""
    text = build_parser(program, verb).format_help()
    found = text.partition("\nexample")[2].partition(":\n")[2].partition("\n\n")[0].splitlines()
    words = [shlex.split(line.partition(" < ")[0]) for line in found]
    assert words
    assert all(" ".join(each).startswith(program) for each in words)
    return [each[len(program.split()) :] for each in words]


@pytest.mark.parametrize(
    ("group", "verb"), VERBS, ids=lambda argument: getattr(argument, "name", argument)
)
def test_the_example_of_a_verb_is_accepted(group: str, verb: Verb) -> None:
    program = f"magnetar admin {group} {verb.name}"
    for words in examples_of(program, verb):
        build_parser(program, verb, ADMIN_ARGUMENTS).parse_args(words)


@pytest.mark.parametrize(
    ("program", "verb"),
    [
        *(("magnetar", each) for each in COMMANDS if not each.is_group),
        *(("magnetar cluster", each) for each in CLUSTER_VERBS),
        *(("magnetar tokens", each) for each in TOKEN_VERBS),
        *(("magnetar spark", each) for each in JOBS),
    ],
    ids=lambda argument: getattr(argument, "name", argument),
)
def test_the_examples_of_a_command_are_accepted(program: str, verb: Verb) -> None:
    for words in examples_of(f"{program} {verb.name}", verb):
        build_parser(program, verb).parse_args(words)


def test_what_an_example_of_a_policy_sets_is_a_value() -> None:
    """A set- verb needs at least one value, which its parser does not know."""
    for group, verb in VERBS:
        if verb.name.startswith("set-") and group in ("namespaces", "topics"):
            (words,) = examples_of(f"magnetar admin {group} {verb.name}", verb)
            options = {argument.target for argument in verb.arguments if argument.is_option} - {
                "global"
            }
            assert len(words) > 1 or not options, verb.name


def test_what_lists_and_counts_can_be_watched_and_what_changes_cannot() -> None:
    watched = {f"{group} {verb.name}" for group, verb in VERBS if "--watch" in str(verb.arguments)}
    assert {
        "topics list",
        "topics stats",
        "topics describe",
        "topics partitioned-stats",
        "scalable-topics segments",
        "scalable-topics describe",
        "scalable-topics subscriptions",
        "brokers list",
        "broker-stats topics",
        "namespaces list",
        "transactions slow-transactions",
    } <= watched
    assert not {name for name in watched if re.search(r" (set|create|delete|remove|migrate)", name)}
    assert "topics offload" not in watched and "topics terminate" not in watched


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("t/n --watch", 2.0),
        ("--watch t/n", 2.0),
        ("--watch 0.5 t/n", 0.5),
        ("t/n --watch=7", 7.0),
        ("t/n", None),
    ],
)
def test_the_word_after_a_bare_watch_is_not_its_value(words: str, seconds: float | None) -> None:
    verb = next(verb for group, verb in VERBS if (group, verb.name) == ("namespaces", "policies"))
    options = build_parser("x", verb, ADMIN_ARGUMENTS).parse_args(close_watch(words.split()))
    assert (options.namespace, options.watch) == ("t/n", seconds)
