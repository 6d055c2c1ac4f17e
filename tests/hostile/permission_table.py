"""Who may make which call, written down by hand from what Pulsar's default provider does and what
the proposals promise; nothing here is read from the tables of the code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Who(StrEnum):
    NO_CREDENTIALS = "no credentials"
    WRONG = "wrong credentials"
    EXPIRED = "expired credentials"
    STRANGER = "a role without grant"
    PRODUCER = "produce only"
    CONSUMER = "consume only"
    OTHER_ADMIN = "admin of another tenant"
    ADMIN = "tenant admin"
    SUPER = "super-user"


KNOWN = frozenset(Who) - {Who.NO_CREDENTIALS, Who.WRONG, Who.EXPIRED}


@dataclass(frozen=True)
class Rule:
    allowed: frozenset[Who]
    status: int
    """What a known role that is not allowed is told over REST."""


OPEN = Rule(frozenset(Who), 0)
ANYBODY_KNOWN = Rule(KNOWN, 0)
SUPER_USER = Rule(frozenset({Who.SUPER}), 401)
_ADMINS = frozenset({Who.SUPER, Who.ADMIN})
TENANT = Rule(_ADMINS, 401)
NAMESPACE = Rule(_ADMINS, 403)
POLICY = Rule(_ADMINS, 403)
NAMESPACE_EITHER = Rule(_ADMINS | {Who.PRODUCER, Who.CONSUMER}, 403)
NAMESPACE_CONSUME = Rule(_ADMINS | {Who.CONSUMER}, 403)
TOPIC = Rule(_ADMINS, 401)
EITHER = Rule(_ADMINS | {Who.PRODUCER, Who.CONSUMER}, 401)
PRODUCE = Rule(_ADMINS | {Who.PRODUCER}, 401)
CONSUME = Rule(_ADMINS | {Who.CONSUMER}, 401)

_N = r"/admin/v2/namespaces/t/n"
_X = r"/admin/v2/(persistent|non-persistent)/t/n/x"
_XT = r"/admin/v2/(persistent|non-persistent|topic)/t/n/x"
_C = r"/console/api/(persistent|topic)/t/n/x"
_S = r"/admin/v2/scalable(-topics)?/t/n/x"
# The first row that matches `METHOD path` counts.
REST: tuple[tuple[str, Rule], ...] = (
    # Pages for everybody: the probe of every test suite, load balancers, the description.
    (r"GET /(metrics|status\.html|openapi\.json)?", OPEN),
    # The console: its files are for everybody, what its pages ask is not.
    (r"GET /console(/1)?", OPEN),
    (r"GET /console/api/(session|rights|tenants|overview|topics)", ANYBODY_KNOWN),
    (r"GET /console/api/(clients|configuration)", SUPER_USER),
    (r"GET /console/api/namespace/t/n/policies", POLICY),
    (rf"GET {_C}(/preview)?", EITHER),
    (rf"GET {_C}/policies", POLICY),
    (rf"GET {_C}/(messages|preview/cursor)", CONSUME),
    (rf"POST {_C}/messages", PRODUCE),
    # The cluster: super-users, but its clusters' names, the version and readiness are no secret.
    (r"GET /admin/v2/clusters", ANYBODY_KNOWN),
    (r"GET /admin/v2/brokers/(version|ready)", ANYBODY_KNOWN),
    (r"\w+ /admin/v2/(clusters|brokers|broker-stats|bookies)(/.*)?", SUPER_USER),
    (r"\w+ /admin/v2/(resource-quotas|resourcegroups)(/.*)?", SUPER_USER),
    # Interfaces that are not served at all.
    (r"\w+ /admin/v3/(functions|sources|sinks|packages)(/.*)?", ANYBODY_KNOWN),
    (r"GET /admin/v3/transactions/.*", ANYBODY_KNOWN),
    (r"POST /admin/v3/transactions/.*", SUPER_USER),
    (r"\w+ /admin/v2/worker(-stats)?(/.*)?", ANYBODY_KNOWN),
    (r"\w+ /topics(/.*)?", ANYBODY_KNOWN),
    # Tenants: made and listed by super-users, otherwise their own admins' matter.
    (r"(GET /admin/v2/tenants|PUT /admin/v2/tenants/t)", SUPER_USER),
    (r"(GET|POST|DELETE) /admin/v2/tenants/t", TENANT),
    # Namespaces
    (r"POST /admin/v2/namespaces/(grant|revoke)PermissionsOnTopics", SUPER_USER),
    (r"GET /admin/v2/namespaces/1/antiAffinity/1", SUPER_USER),
    (r"GET /admin/v2/namespaces/t", TENANT),
    (rf"(PUT|DELETE) {_N}", TENANT),
    (rf"GET {_N}/(topics(/count)?|bundles)", NAMESPACE_EITHER),
    (rf"PUT {_N}/unload", SUPER_USER),
    (rf"PUT {_N}/1/(unload|split)", SUPER_USER),
    (rf"POST {_N}(/1)?/clearBacklog(/s)?", NAMESPACE_CONSUME),
    (rf"POST {_N}(/1)?/unsubscribe/s", NAMESPACE_CONSUME),
    (rf"\w+ {_N}/persistence/bookieAffinity", SUPER_USER),
    (rf"POST {_N}/migration", SUPER_USER),
    (rf"\w+ {_N}/propert(y|ies)(/.*)?", TENANT),
    (rf"\w+ {_N}(/.*)?", POLICY),
    # Lists of topics
    (r"GET /admin/v2/(persistent|non-persistent|topic)/t/n(/partitioned)?", NAMESPACE_EITHER),
    # Topics: making and deleting is the namespace's matter, no grant allows it.
    (rf"(PUT|DELETE) {_X}", NAMESPACE),
    (rf"(PUT|POST|DELETE) {_X}/partitions", NAMESPACE),
    (rf"POST {_X}/createMissedPartitions", NAMESPACE),
    (rf"GET {_X}/(partitions|stats|partitioned-stats|internalStats)", EITHER),
    (rf"GET {_X}/(partitioned-internalStats|internal-info|properties)", EITHER),
    (rf"\w+ {_X}/(lastMessageId|messageid/1|examinemessage|backlogSize|backlog)", CONSUME),
    (rf"GET {_X}/(ledger/1/entry/1|getMessageIdByIndex)", CONSUME),
    (rf"\w+ {_X}/(subscriptions|subscription/s(/.*)?|all_subscription/.*)", CONSUME),
    (rf"\w+ {_X}/(unload|terminate(/partitions)?|compaction|offload|trim|truncate)", TOPIC),
    (rf"(PUT|DELETE) {_X}/properties", TOPIC),
    (rf"\w+ {_XT}/permissions(/.*)?", TOPIC),
    (rf"\w+ {_XT}/\w+", POLICY),
    (rf"\w+ {_XT}/s/dispatchRate", POLICY),
    # Schemas and lookup
    (r"GET /admin/v2/schemas/t/n/x/.*", EITHER),
    (r"POST /admin/v2/schemas/t/n/x/schema", PRODUCE),
    (r"POST /admin/v2/schemas/t/n/x/version", EITHER),
    (r"(DELETE|POST) /admin/v2/schemas/t/n/x/(schema|compatibility)", TOPIC),
    (r"GET /lookup/v2/topic/[\w-]+/t/n/x/bundle", NAMESPACE_EITHER),
    (r"GET /lookup/v2/topic/[\w-]+/t/n/x", EITHER),
    # Scalable topics
    (r"GET /admin/v2/scalable(-topics)?/t/n", NAMESPACE_EITHER),
    (rf"(PUT|DELETE) {_S}", NAMESPACE),
    (rf"POST {_S}/migrate(-to-scalable)?", PRODUCE),
    (rf"GET {_S}/migration-check", PRODUCE),
    (rf"POST {_S}/(split/1|merge/1/1|scale|prune)", SUPER_USER),
    (rf"\w+ {_S}/autoScalePolicy", POLICY),
    (rf"PUT {_S}/properties", TOPIC),
    (rf"\w+ {_S}/(subscriptions(/.*)?|segments/1/subscriptions/.*)", CONSUME),
    (rf"GET {_S}(/(properties|history|policy|stats|load|explain|decisions))?", EITHER),
    (rf"GET {_S}/segments(/1(/internalStats)?)?", EITHER),
    (rf"GET {_S}/(segments/1/lastSequenceId|lastSequenceIds)", PRODUCE),
    # Reads of many topics: each topic that a body names is checked by itself.
    (r"POST /admin/v2/reads/(plan|cut|holds/1)", ANYBODY_KNOWN),
    (r"(GET|DELETE) /admin/v2/reads/holds/t/n(/1)?", NAMESPACE_CONSUME),
    # What brokers ask of each other
    (r"\w+ /admin/v2/segments/t/n/x/.*", SUPER_USER),
    (r"POST /admin/v2/broker-calls/1", SUPER_USER),
)


def rule_of(method: str, path: str) -> Rule | None:
    call = f"{method} {path}"
    return next((rule for pattern, rule in REST if re.fullmatch(pattern, call)), None)


# What may be sent, by the name of the command. `PRODUCER` and `SUBSCRIBE` decide about everything
# that is done with the producer or the consumer afterwards.
COMMANDS: dict[str, Rule] = {
    **dict.fromkeys(("CONNECT", "AUTH_RESPONSE", "PING", "PONG"), ANYBODY_KNOWN),
    **dict.fromkeys(("LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA"), EITHER),
    **dict.fromkeys(("GET_TOPICS_OF_NAMESPACE", "WATCH_TOPIC_LIST"), NAMESPACE_EITHER),
    **dict.fromkeys(("PRODUCER", "SEND", "CLOSE_PRODUCER", "GET_OR_CREATE_SCHEMA"), PRODUCE),
    **dict.fromkeys(("SUBSCRIBE", "FLOW", "ACK", "UNSUBSCRIBE", "SEEK", "CONSUMER_STATS"), CONSUME),
    **dict.fromkeys(("REDELIVER_UNACKNOWLEDGED_MESSAGES", "GET_LAST_MESSAGE_ID"), CONSUME),
    "CLOSE_CONSUMER": CONSUME,
    "SCALABLE_TOPIC_LOOKUP": EITHER,
    "SCALABLE_TOPIC_SUBSCRIBE": CONSUME,
    "WATCH_SCALABLE_TOPICS": NAMESPACE_EITHER,
    # To end what one does not have is allowed and does nothing.
    **dict.fromkeys(("WATCH_TOPIC_LIST_CLOSE", "SCALABLE_TOPIC_CLOSE"), ANYBODY_KNOWN),
    **dict.fromkeys(("WATCH_SCALABLE_TOPICS_CLOSE", "WATCH_TC_ASSIGNMENTS_CLOSE"), ANYBODY_KNOWN),
    # A transaction belongs to the role that began it: another's is as good as unknown.
    **dict.fromkeys(("NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN"), ANYBODY_KNOWN),
    **dict.fromkeys(("END_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION"), ANYBODY_KNOWN),
    **dict.fromkeys(("TC_CLIENT_CONNECT_REQUEST", "WATCH_TC_ASSIGNMENTS"), ANYBODY_KNOWN),
}

# The same after what allowed it was taken away: the grant of the role, the office of the tenant's
# admin or of the super-user. The connection is the one that was open before, and so is what the
# command needs: nothing of it may be used any more.
_HARMLESS = {name: rule for name, rule in COMMANDS.items() if rule is ANYBODY_KNOWN}
_NOBODY = Rule(frozenset(), 0)
AFTER_REVOCATION: dict[str, Rule] = {
    **dict.fromkeys(COMMANDS, _NOBODY),
    **_HARMLESS,
    # What is closed already may be closed once more.
    **dict.fromkeys(("CLOSE_PRODUCER", "CLOSE_CONSUMER"), ANYBODY_KNOWN),
}
