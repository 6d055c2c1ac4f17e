"""What a function takes is found by what a request says."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import NewType, cast

import pytest

from magnetar.broker.administration.registry import complete, finds
from magnetar.broker.port import Port
from magnetar.errors import NotFound, PreconditionFailed
from magnetar.runtime.clock import Clock, SystemClock

Shelf = NewType("Shelf", str)
Book = NewType("Book", str)
Even = NewType("Even", int)
Loan = NewType("Loan", tuple[str, Clock])
SERVICE = cast(Port, "a broker")


@finds(Shelf)
async def find_shelf(service: Port, room: str) -> Shelf:
    return Shelf(f"{service}, {room}")


@finds(Book)
async def find_book(room: str, title: str, what: str, or_else: str = "") -> Book:
    if title == "lost":
        raise NotFound(or_else or f"{what} needs a book")
    return Book(f"{title} of {room}")


@finds(Even)
def check_even(count: int) -> Even:
    if count % 2:
        raise PreconditionFailed("odd")
    return Even(count)


async def read(book: Book) -> str:
    return book


async def lend(count: Even, title: Book, service: Port, shelf: Shelf, days: int = 7) -> str:
    return f"{count} {title}, {days} days, {shelf}, {service}"


def test_things_are_found_by_the_parameters_that_their_finders_name() -> None:
    function = complete(lend, {"what": "Lending"})
    answer = asyncio.run(function(SERVICE, room="hall", title="Emma", count=2))
    assert answer == "2 Emma of hall, 7 days, a broker, hall, a broker"


def test_the_first_thing_that_is_not_found_is_the_refusal() -> None:
    function = complete(lend, {"what": "Lending"})
    with pytest.raises(PreconditionFailed, match="odd"):
        asyncio.run(function(SERVICE, room="hall", title="lost", count=1))
    with pytest.raises(NotFound, match="Lending needs a book"):
        asyncio.run(function(SERVICE, room="hall", title="lost", count=2))


def test_words_of_the_operation_reach_the_finder() -> None:
    function = complete(read, {"what": "Reading", "or_else": "no such book"})
    with pytest.raises(NotFound, match="no such book"):
        asyncio.run(function(SERVICE, room="hall", title="lost"))


def test_a_request_says_only_what_cannot_be_found() -> None:
    function = complete(lend, {"what": "Lending"})
    kinds = {each.name: each.annotation for each in inspect.signature(function).parameters.values()}
    assert kinds == {"count": int, "room": str, "title": str, "days": int}
    assert function.__annotations__ == {**kinds, "return": str}


def test_owners_are_given_by_their_types_to_functions_and_finders() -> None:
    clock = SystemClock()
    broker = cast(Port, SimpleNamespace(clock=clock))

    @finds(Loan)
    async def find_loan(clock: Clock, title: str) -> Loan:
        return Loan((title, clock))

    async def show(clock: Clock, loan: Loan, days: int) -> object:
        return clock, loan, days

    function = complete(show, {})
    assert set(inspect.signature(function).parameters) == {"title", "days"}
    shown = asyncio.run(function(broker, title="Emma", days=7))
    assert shown == (clock, ("Emma", clock), 7)
