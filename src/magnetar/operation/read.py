"""What queries ask that read many topics at once, such as those of Spark."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.broker import ReadHold
from magnetar.model.answer.record import ReachedAnswer, ReadPlanAnswer
from magnetar.model.permission import AUTHENTICATED, NAMESPACE_CONSUME
from magnetar.operation.row import NAMESPACE, Answer, Form, Kind, Result, Table, body, path

TABLE: Final = Table("reads", "/admin/v2/reads")
_HOLD: Final = path("hold", "name of the hold")
_HOLDS: Final = TABLE.below("/holds/{tenant}/{namespace}", NAMESPACE)

TABLE.add(
    "plan",
    "POST /plan",
    AUTHENTICATED,
    "What topics hold, part by part: segments or partitions, their ledgers, ends and lag.\n\n"
    "A query has `topics`, or a `namespace` with a `pattern` or `properties`, and may have\n"
    "`positions` up to which it has read. With the `version` of an earlier answer, only changes\n"
    "are answered, and without topics only whether there are any. It takes the right to\n"
    "consume each topic.",
    body("query", Kind.DOCUMENT),
    result=Answer(ReadPlanAnswer),
    status=200,
)
TABLE.add(
    "cut",
    "POST /cut",
    AUTHENTICATED,
    "How far parts may be read together within a number of messages or bytes, by exact counts.\n\n"
    "Each of the `parts` has a `name`, and `after` and `through` as positions.",
    body("query", Kind.DOCUMENT),
    result=Answer(ReachedAnswer, Form.LIST),
    status=200,
)
TABLE.add(
    "move_hold",
    "POST /holds/{hold}",
    AUTHENTICATED,
    "Keep what stands behind a position of each part; make the hold where it is missing.\n\n"
    "Parts that are gone are answered.",
    _HOLD,
    body("moves", Kind.DOCUMENTS),
    result=Result.NAMES,
    status=200,
)
_HOLDS.add(
    "holds",
    "GET",
    NAMESPACE_CONSUME,
    "The holds on topics of a namespace: their topics, and how many entries each keeps.",
    result=Answer(ReadHold, Form.BY_NAME),
)
_HOLDS.add(
    "release_hold",
    "DELETE /{hold}",
    NAMESPACE_CONSUME,
    "End a hold on all topics of a namespace; answer on how many it was.",
    _HOLD,
    result=Result.NUMBER,
    status=200,
)
