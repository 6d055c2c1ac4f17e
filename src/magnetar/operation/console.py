"""What the pages of the web console ask beyond the operations that everybody has.

It is served where the console is, and it is not for others: the admin client has methods for the
few calls that commands make too, which stand here without permissions.
"""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.broker import BrokersOverview
from magnetar.model.answer.namespace import PolicyOrigin
from magnetar.model.answer.topic import TopicTable
from magnetar.model.name import TopicDomain
from magnetar.model.permission import (
    AUTHENTICATED,
    NAMESPACE_ADMIN,
    SUPER_USER,
    TOPIC_CONSUME,
    TOPIC_POLICY,
    TOPIC_PRODUCE,
    TOPIC_READ,
)
from magnetar.operation.row import (
    NAMESPACE,
    TOPIC,
    Answer,
    Form,
    Kind,
    Result,
    Table,
    Verb,
    body,
    flag,
    query,
)

CONSOLE: Final = "/console"
_ROOT: Final = f"{CONSOLE}/api"
BROKER: Final = Table("brokers", _ROOT)
TABLE: Final = Table("topics", _ROOT)

BROKER.compose(
    "overview",
    "The brokers at a glance: what topics carry, and what each process costs.",
    call="GET /overview",
    result=Answer(BrokersOverview),
)
TABLE.compose(
    "table",
    "Some of the topics as rows with numbers, in the order of one of them.",
    query("text"),
    query("namespace"),
    query("sort"),
    flag("descending"),
    query("limit", Kind.NUMBER),
    call="GET /topics",
    result=Answer(TopicTable),
)
_TOPIC: Final = TABLE.below("/{domain}/{tenant}/{namespace}/{topic}", TOPIC)
_TOPIC.compose(
    "policy_origins",
    "Every policy of a topic, with the level that its value comes from.",
    call="GET /policies",
    result=Answer(PolicyOrigin, Form.LIST),
)
_TOPIC.compose(
    "describe",
    "A topic of any kind on one screen.",
    result=Result.ANY,
    cli=Verb("describe", "show a topic of any kind on one screen"),
)

_STORED: Final = (TopicDomain.PERSISTENT, TopicDomain.TOPIC)
PAGES: Final = Table("console", _ROOT, domains=_STORED, is_internal=True)
PAGES.add(
    "session",
    "GET /session",
    AUTHENTICATED,
    "Who asks, and what answers.",
    result=Result.DOCUMENT,
)
PAGES.add(
    "rights",
    "GET /rights",
    AUTHENTICATED,
    "The names of the operations that the caller may call on a tenant, namespace or topic.",
    query("tenant"),
    query("namespace"),
    query("topic"),
    result=Result.NAMES,
)
PAGES.add(
    "tenants",
    "GET /tenants",
    AUTHENTICATED,
    "Tenants and namespaces that the caller sees.",
    result=Result.DOCUMENT,
)
PAGES.add(
    "clients",
    "GET /clients",
    SUPER_USER,
    "Who is connected.",
    result=Result.DOCUMENTS,
)
PAGES.add(
    "configuration",
    "GET /configuration",
    SUPER_USER,
    "The keys of the configuration that act.",
    result=Result.DOCUMENTS,
)
PAGES.add(
    "namespace_policies",
    "GET /namespace/{tenant}/{namespace}/policies",
    NAMESPACE_ADMIN,
    "Every policy of the namespace, with where its value comes from.",
    NAMESPACE,
    result=Answer(PolicyOrigin, Form.LIST),
)
PAGES.add(
    "overview",
    "GET /overview",
    AUTHENTICATED,
    "The brokers at a glance.",
    result=Answer(BrokersOverview),
)
PAGES.add(
    "topics",
    "GET /topics",
    AUTHENTICATED,
    "Some of the topics, with numbers.",
    query("text"),
    query("namespace"),
    query("kind"),
    query("sort"),
    flag("descending"),
    query("offset", Kind.NUMBER),
    query("limit", Kind.NUMBER),
    flag("system"),
    result=Answer(TopicTable),
)
_PAGE: Final = PAGES.below("/{domain}/{tenant}/{namespace}/{topic}", TOPIC)
_PAGE.add(
    "topic",
    "GET",
    TOPIC_READ,
    "One topic as it is now, and where it can be changed, if not here.",
    result=Result.DOCUMENT,
)
_PAGE.add(
    "policies",
    "GET /policies",
    TOPIC_POLICY,
    "Every policy of the topic, with where its value comes from.",
    result=Answer(PolicyOrigin, Form.LIST),
)
_PAGE.add(
    "messages",
    "GET /messages",
    TOPIC_CONSUME,
    "Messages of one part of the topic, decoded.",
    query("part"),
    query("start")._replace(wire="from"),
    query("key"),
    query("count", Kind.NUMBER),
    result=Result.DOCUMENT,
)
_PAGE.add(
    "publish",
    "POST /messages",
    TOPIC_PRODUCE,
    "Publish one message, written by hand.",
    body("message", Kind.DOCUMENT),
    result=Result.DOCUMENT,
    status=200,
)
_PAGE.add(
    "preview",
    "GET /preview",
    TOPIC_READ,
    "What a split, a merge or a new number of segments would do to the layout.",
    *(query(name, Kind.NUMBER) for name in ("segment", "at", "left", "right", "count")),
    result=Result.DOCUMENT,
)
_PAGE.add(
    "preview_cursor",
    "GET /preview/cursor",
    TOPIC_CONSUME,
    "How many messages would be redelivered or skipped if a cursor were moved.",
    query("subscription"),
    query("time", Kind.NUMBER),
    query("position"),
    query("skip", Kind.NUMBER),
    result=Result.DOCUMENT,
)
