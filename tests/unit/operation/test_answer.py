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
from magnetar.operation.row import Answer, Form, Operation
from magnetar.operation.table import all_operations

GOLDEN = Path(__file__).parents[2] / "golden" / "admin"
RECORDED = ("rest.txt", "rest-busy.txt", "rest-metadata-store.txt")
EXCHANGE = re.compile(r"> (?:\[[^]]*\] )?(?P<method>[A-Z]+) (?P<path>[^?\s]+).*")
ROUTES = list(make_routes(all_operations()))
ANSWERED = [each for each in ROUTES if isinstance(each.row.result, Answer)]
COLLECTIONS = {Form.LIST: (list, Sequence), Form.BY_NAME: (dict, Mapping)}


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


@pytest.mark.parametrize("route", ANSWERED, ids=lambda each: each.row.name)
def test_a_function_answers_what_its_row_says(route: Route) -> None:
    answer, found = route.row.result, route.result
    assert isinstance(answer, Answer)
    if answer.form in COLLECTIONS:
        assert get_origin(found) in COLLECTIONS[answer.form]
        assert get_args(found)[-1] is answer.kind
    else:
        assert found == type_of(answer)


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
