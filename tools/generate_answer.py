"""Write model/answer/record.py: what the admin client gets of records, answered as they are.

python tools/generate_answer.py           write the module
python tools/generate_answer.py --check   fail when it is not what would be written

A record is a struct here, and a dict with the same keys to who asks for it. What a record does not
say is left out of the answer, as everything that has no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from magnetar.broker.administration.topic_table import Row
from magnetar.model.autoscale import AutoScaleOverride
from magnetar.model.bookie import BookieInfo
from magnetar.model.policy import BundlesData, Policies, TopicPolicies
from magnetar.model.read_plan import Reached, ReadPlan
from magnetar.model.tenancy import ClusterData, PartitionedTopicMetadata, TenantInfo
from magnetar.rules.isolation import IsolatedBroker, IsolationPolicy

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src" / "magnetar" / "model" / "answer" / "record.py"
HEAD = '''\
"""Records that are answered as they are kept, written by tools/generate_answer.py from them."""

from typing import Any, NotRequired, TypedDict
'''
RECORDS: Final[Mapping[type, str]] = {
    ClusterData: "ClusterAnswer",
    TenantInfo: "TenantAnswer",
    IsolationPolicy: "IsolationPolicyAnswer",
    IsolatedBroker: "IsolatedBrokerAnswer",
    BookieInfo: "BookieAnswer",
    BundlesData: "BundlesAnswer",
    PartitionedTopicMetadata: "PartitionedMetadata",
    Policies: "NamespacePolicies",
    TopicPolicies: "TopicPoliciesAnswer",
    AutoScaleOverride: "AutoScaleAnswer",
    ReadPlan: "ReadPlanAnswer",
    Reached: "ReachedAnswer",
    Row: "TopicRow",
}
"""Those that are inside of others are called after their types."""


def write_module() -> str:
    written: dict[str, str] = {}
    for record in RECORDS:
        write_record(record, written)
    return HEAD + "".join(written.values())


def name_of(record: type) -> str:
    return RECORDS.get(record, f"{record.__name__}Answer")


def write_record(record: type, written: dict[str, str]) -> None:
    """After those that are inside of it."""
    if name_of(record) in written:
        return
    lines = [*write_fields(record, written)]
    written[name_of(record)] = "\n".join(
        ["", "", f"class {name_of(record)}(TypedDict):", *lines, ""]
    )


def write_fields(record: type, written: dict[str, str]) -> Iterator[str]:
    kinds = get_type_hints(record, include_extras=True)
    for each in msgspec.structs.fields(record):
        kind = kinds[each.name]
        is_known = NoneType not in get_args(kind)
        if not each.required and record.__struct_config__.omit_defaults:  # type: ignore[attr-defined]
            is_known = False
        spelled = spell(kind, written)
        yield f"    {each.encode_name}: {spelled if is_known else f'NotRequired[{spelled}]'}"


def spell(kind: Any, written: dict[str, str]) -> str:
    """As JSON has it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated or origin is Final:
        return spell(arguments[0], written)
    if origin in (Union, UnionType):
        (known,) = (each for each in arguments if each is not NoneType)
        return spell(known, written)
    if origin in (tuple, list, Sequence):
        return f"list[{spell(arguments[0], written)}]"
    if origin in (dict, Mapping):
        return f"dict[str, {spell(arguments[1], written)}]"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "str"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__struct_config__.array_like:
            (member,) = {spell(each, written) for each in get_type_hints(kind).values()}
            return f"list[{member}]"
        write_record(kind, written)
        return name_of(kind)
    return "Any" if kind is Any else str(kind.__name__)


if __name__ == "__main__":
    from output import finish, tidy

    finish({TARGET: tidy(write_module(), TARGET, "F401")})
