"""What rows say is answered is what the functions answer, and what was recorded."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from magnetar.admin.bind import make_routes
from magnetar.admin.route import Found, Route, Router
from magnetar.operation.row import Answer, Form, Operation, Result
from magnetar.operation.table import all_operations

GOLDEN = Path(__file__).parents[2] / "golden" / "admin"
RECORDED = ("rest.txt", "rest-busy.txt", "rest-metadata-store.txt")
EXCHANGE = re.compile(r"> (?:\[[^]]*\] )?(?P<method>[A-Z]+) (?P<path>[^?\s]+).*")
ROUTES = list(make_routes(all_operations()))
ANSWERED = [each for each in ROUTES if isinstance(each.row.result, Answer)]
COLLECTIONS = {
    Form.LIST: (list, Sequence),
    Form.BY_NAME: (dict, Mapping),
    Form.BY_GROUP: (dict, Mapping),
}
DEPTHS = {Form.LIST: 1, Form.BY_NAME: 1, Form.BY_GROUP: 2}
UNDESCRIBED = (
    Result.DOCUMENT,
    Result.MAYBE_DOCUMENT,
    Result.DOCUMENTS,
    Result.TABLE,
    Result.ANY,
)
WITHOUT_DESCRIPTION = {
    "brokers.topic_stats": "by namespace, bundle and domain, each with names of their own",
    "namespaces.bookie_affinity": "kept and answered as it was sent",
    "topics.describe": "made by the command for a screen, of the answers of others",
    "scalable_topics.describe": "made by the command for a screen, of the answers of others",
    "transactions.coordinator_stats": "of one coordinator or by number of all: two shapes",
}


def type_of(answer: Answer) -> Any:
    match answer.form:
        case Form.ONE:
            return answer.kind
        case Form.MAYBE:
            return answer.kind | None  # type: ignore[operator]
        case Form.LIST:
            return list[answer.kind]  # type: ignore[name-defined]
        case Form.BY_NAME:
            return dict[str, answer.kind]  # type: ignore[name-defined]
        case Form.BY_GROUP:
            return dict[str, dict[str, answer.kind]]  # type: ignore[name-defined]


def test_every_answer_is_described_but_a_few() -> None:
    """Policies of topics and namespaces are described by their records; pages ask for theirs."""
    found = {
        each.name
        for each in all_operations()
        if each.result in UNDESCRIBED and "_policies." not in each.name and not each.is_internal
    }
    assert found == WITHOUT_DESCRIPTION.keys()


def says_the_same(found: Any, kind: Any) -> bool:
    """A record is a dict with the same keys to who asks for it: TypedDicts are made of records."""
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        keys = [each.encode_name for each in msgspec.structs.fields(found)]
        return keys == [*kind.__annotations__]
    return bool(found == kind)


@pytest.mark.parametrize("route", ANSWERED, ids=lambda each: each.row.name)
def test_a_function_answers_what_its_row_says(route: Route) -> None:
    answer, found = route.row.result, route.result
    assert isinstance(answer, Answer)
    for _ in range(DEPTHS.get(answer.form, 0)):
        assert get_origin(found) in COLLECTIONS[answer.form]
        found = get_args(found)[-1]
    if answer.form is Form.MAYBE:
        assert found == type_of(answer)
    elif found is not None:  # what is followed says at run time what it answers
        assert says_the_same(found, answer.kind)


def recorded(name: str) -> Iterator[tuple[Operation, Any]]:
    """The documents that operations with known answers have given."""
    router = Router(ROUTES)
    for exchange in (GOLDEN / name).read_text().split("\n\n"):
        request, *reply = exchange.splitlines()
        asked = EXCHANGE.fullmatch(request)
        if asked is None or f"< {HTTPStatus.OK.value}" not in reply:
            continue
        found = router.find(asked["method"], asked["path"])
        if isinstance(found, Found) and isinstance(found.route.row.result, Answer):
            body = "\n".join(line for line in reply if not line.startswith("< "))
            yield found.route.row, json.loads(body)


def test_recorded_answers_have_the_keys_and_values_of_their_types() -> None:
    """No key is missing, and none is there that the type does not have."""
    seen: Counter[str] = Counter()
    for name in RECORDED:
        for operation, document in recorded(name):
            assert isinstance(operation.result, Answer)
            kept = msgspec.convert(document, type_of(operation.result))
            assert kept == document, operation.name
            seen[operation.name] += 1
    assert len(seen) > 20 and seen.total() > 100
