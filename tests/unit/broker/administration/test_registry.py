"""What a function takes is found by what a request says."""

from __future__ import annotations

import asyncio
import inspect
from typing import NewType, cast

import pytest

from magnetar.broker.administration.registry import complete, finds
from magnetar.broker.service import Service
from magnetar.errors import NotFound, PreconditionFailed

Shelf = NewType("Shelf", str)
Book = NewType("Book", str)
Even = NewType("Even", int)
SERVICE = cast(Service, "a broker")


@finds(Shelf)
async def find_shelf(service: Service, room: str) -> Shelf:
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


async def lend(count: Even, title: Book, service: Service, shelf: Shelf, days: int = 7) -> str:
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
    assert function.__annotations__ == {**kinds, "service": Service, "return": str}


def test_a_function_that_takes_nothing_else_is_left_as_it_is() -> None:
    async def answer(service: Service, title: str) -> str:
        return title

    assert complete(answer, {}) is answer
