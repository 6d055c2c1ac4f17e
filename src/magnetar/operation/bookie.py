"""Bookies and their racks."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.broker import BookieNames
from magnetar.model.answer.record import BookieAnswer
from magnetar.model.permission import SUPER_USER
from magnetar.operation.row import (
    REQUIRED,
    Answer,
    Form,
    Kind,
    Table,
    Verb,
    body,
    local,
    path,
    query,
)

TABLE: Final = Table("bookies", "/admin/v2/bookies")
_ONE: Final = TABLE.below(
    "/racks-info/{bookie}", path("bookie", "bookie as host:port", "-b", "--bookie")
)

TABLE.add(
    "list",
    "GET /all",
    SUPER_USER,
    "All bookies of the cluster, also those that are away.",
    result=Answer(BookieNames),
    cli=Verb("list-bookies", "list the bookies"),
)
TABLE.add(
    "racks",
    "GET /racks-info",
    SUPER_USER,
    "The racks of all bookies, by group.",
    result=Answer(BookieAnswer, Form.BY_GROUP),
    cli=Verb("racks-placement", "show the racks of all bookies"),
)
_ONE.add(
    "rack",
    "GET",
    SUPER_USER,
    "The rack of a bookie.",
    result=Answer(BookieAnswer),
    cli=Verb("get-bookie-rack", "show the rack of a bookie"),
)
_ONE.add(
    "set_rack",
    "POST",
    SUPER_USER,
    "Say on which rack a bookie stands: copies of an entry go to different racks.",
    body("info", Kind.DOCUMENT, missing="the rack of the bookie is required"),
    query("group", default=REQUIRED).asked(
        "group of the bookie (default)", "-g", "--group", preset="default"
    ),
    local("rack", default=REQUIRED).asked("name of the rack, as /rack-1", "-r", "--rack"),
    local("hostname").asked("name of the bookie's host", "-hn", "--hostname"),
    cli=Verb("set-bookie-rack", "say on which rack a bookie stands"),
)
_ONE.add(
    "delete_rack",
    "DELETE",
    SUPER_USER,
    "Forget the rack of a bookie.",
    cli=Verb("delete-bookie-rack", "forget the rack of a bookie"),
)
