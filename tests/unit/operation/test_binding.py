"""Rows and the functions that carry them out agree on their parameters."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

import magnetar.broker.administration  # noqa: F401 - registers the functions
from magnetar.broker.administration.registry import FUNCTIONS
from magnetar.operation.row import Operation, Place
from magnetar.operation.table import all_operations

CONTEXT = {"caller", "transport"}
SERVED = [each for each in all_operations() if each.need is not None]
USES = Counter(id(FUNCTIONS[each.name]) for each in SERVED)


def test_every_operation_that_is_served_has_a_function_and_the_other_way_round() -> None:
    served = {each.name for each in SERVED}
    assert served <= FUNCTIONS.keys()
    # Those of policies are made from their rows, also of what a level cannot do.
    idle = {name for name in FUNCTIONS.keys() - served if "_policies." not in name}
    assert not idle


@pytest.mark.parametrize("operation", SERVED, ids=lambda each: each.name)
def test_the_parameters_of_a_row_are_those_of_its_function(operation: Operation) -> None:
    function = FUNCTIONS[operation.name]
    taken = inspect.signature(function).parameters
    given = {
        each.name
        for each in operation.parameters
        if each.place in (Place.PATH, Place.QUERY, Place.BODY) and not each.is_ignored
    }
    lacking = (taken.keys() & function.__annotations__.keys()) - CONTEXT - given
    if USES[id(function)] > 1:  # parameters with defaults belong to some of its operations
        lacking = {name for name in lacking if taken[name].default is inspect.Parameter.empty}
    # What is passed by name alone is for other functions of the broker.
    lacking = {name for name in lacking if taken[name].kind is not inspect.Parameter.KEYWORD_ONLY}
    assert given <= taken.keys() and not lacking
